// SPDX-License-Identifier: Apache-2.0
/* Passes of your own, in a shared object: what such a plug-in sees of demi.
 *
 *     static bool run(const DemiApi *api, DemiPassRun *run, DemiGraph *graph) {
 *         for (DemiNode *node = api->graph_first(graph); node; node = api->node_next(node))
 *             if (!api->node_name(node)[0] && api->node_set_name(run, node, "unnamed"))
 *                 api->rewrote(run, 1);
 *         return true;
 *     }
 *     static const DemiPluginPass passes[] = {
 *         {DEMI_PLUGIN_PASS_INIT, .name = "name-nodes", .summary = "name all nodes", .run = run}};
 *     static const DemiPlugin plugin = {DEMI_PLUGIN_INIT, .passes = passes, .pass_count = 1};
 *     DEMI_PLUGIN_EXPORT const DemiPlugin *demi_plugin_v1(const DemiApi *api) {
 *         (void)api;
 *         return &plugin;
 *     }
 *
 * `cc -shared -fPIC -o name.so name.c` makes it, `demi opt --load-pass ./name.so --passes
 * name-nodes` or demi_passes_load runs it. A plug-in links with nothing: all it calls is in the
 * DemiApi that it is handed. The tools folder of demi's source has an example.
 *
 * Conventions
 * - Handles (DemiNode, …) are demi's, live as long as the model, and mean nothing beyond it.
 *   Strings and arrays that functions return live until the pass ends; what is passed in is copied.
 * - Functions that only read take NULL and indices out of range: the answer is then NULL, 0, false
 *   or "". A string that the file lacks is "".
 * - Functions that take a DemiPassRun that is not const can fail, and return NULL or false then.
 *   What went wrong is kept in the run: from then on they all fail, and so does the pass, whatever
 *   it returns. So a pass may take many steps and look at the end only. To change something by a
 *   NULL handle is such a failure.
 * - Out of memory is such a failure too. demi never jumps across a plug-in's frames, so these may
 *   hold what they like: C++ objects, locks, open files. Nor may a plug-in jump or throw across
 *   demi's.
 * - Each change keeps the structure sound, and after the pass the whole model is verified: an error
 *   then names the pass. What can be wrong is order (a node before what it reads) and definitions
 *   that are missing.
 * - There is nothing to make functions or sparse tensors with, nor to remove graph inputs and
 *   outputs; what there is of them is seen and kept.
 * - A pass must not call demi.h with the model it works on.
 * - Threads: a run belongs to the thread it is called in. Runs on different models may be under way
 *   at once, so a pass keeps its state in the run's memory (alloc), not in variables of its file.
 * - Structures begin with their size, and DemiApi only grows at its end: what was built for an
 *   older demi keeps working. What was built for a newer one is refused, unless it sets api_size to
 *   less and looks at DemiApi.size before it calls what is new.
 */
#ifndef DEMI_PLUGIN_H
#define DEMI_PLUGIN_H

#include "demi.h"
#include "demi_dtype.h"

#ifdef __cplusplus
extern "C" {
#define DEMI_PLUGIN_EXPORT extern "C" DEMI_API
#else
#define DEMI_PLUGIN_EXPORT DEMI_API
#endif

#if defined(__GNUC__)
#define DEMI_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define DEMI_PRINTF(text, first)
#endif

typedef struct DemiPassRun DemiPassRun;   /* one run of a pass on one model */
typedef struct DemiGraph DemiGraph;       /* the main graph, a subgraph, or a function's body */
typedef struct DemiNode DemiNode;         /* a call of an operator or function */
typedef struct DemiValue DemiValue;       /* a graph input, an initializer, or a node's output */
typedef struct DemiUse DemiUse;           /* one place that reads a value */
typedef struct DemiAttr DemiAttr;         /* a node's attribute; ends when it is set anew */
typedef struct DemiTensor DemiTensor;     /* constant data; immutable */
typedef struct DemiType DemiType;         /* of a value; immutable */
typedef struct DemiFunction DemiFunction; /* a function of the model's own */

typedef enum DemiTypeKind {
    DEMI_TYPE_NONE = 0, /* not known */
    DEMI_TYPE_TENSOR = 1,
    DEMI_TYPE_SPARSE_TENSOR = 2,
    DEMI_TYPE_SEQUENCE = 3,
    DEMI_TYPE_OPTIONAL = 4,
    DEMI_TYPE_MAP = 5,
    DEMI_TYPE_OPAQUE = 6
} DemiTypeKind;

/* ONNX's numbers of attribute types. */
typedef enum DemiAttrType {
    DEMI_ATTR_UNDEFINED = 0, /* there is no attribute */
    DEMI_ATTR_FLOAT = 1,
    DEMI_ATTR_INT = 2,
    DEMI_ATTR_STRING = 3,
    DEMI_ATTR_TENSOR = 4,
    DEMI_ATTR_GRAPH = 5,
    DEMI_ATTR_FLOATS = 6,
    DEMI_ATTR_INTS = 7,
    DEMI_ATTR_STRINGS = 8,
    DEMI_ATTR_TENSORS = 9,
    DEMI_ATTR_GRAPHS = 10,
    DEMI_ATTR_SPARSE_TENSOR = 11,
    DEMI_ATTR_SPARSE_TENSORS = 12,
    DEMI_ATTR_TYPE = 13,
    DEMI_ATTR_TYPES = 14
} DemiAttrType;

/* Facts about a model that a pass may need, give or break. A pass that makes values and does not
 * break DEMI_FACT_DTYPES gives each a type where the fact holds; demi checks that. */
enum {
    DEMI_FACT_DTYPES = 1, /* every value's element type is known */
    DEMI_FACT_SHAPES = 2  /* shapes are as exact as infer-shapes can make them */
};

typedef enum DemiOptionKind {
    DEMI_OPTION_BOOL = 0,
    DEMI_OPTION_INT = 1,
    DEMI_OPTION_STRING = 2,
    DEMI_OPTION_STRINGS = 3, /* a list; has no default */
    DEMI_OPTION_CHOICE = 4
} DemiOptionKind;

/* An option of a pass: pass{name=value}. */
typedef struct DemiPluginOption {
    uint32_t size;
    DemiOptionKind kind;
    const char *name; /* of a-z, 0-9 and '-' */
    const char *help; /* one phrase; may be NULL */
    /* Default, as a pipeline spells it; NULL: false, 0, none, the first. */
    const char *otherwise;
    const char *const *choices; /* CHOICE: names, ended by NULL */
} DemiPluginOption;

typedef enum DemiScope {
    DEMI_SCOPE_MODEL = 0,  /* run is called once, with the main graph */
    DEMI_SCOPE_GRAPHS = 1, /* with each graph: subgraphs, functions' bodies and training graphs too,
                              outer before inner; not with those that it removes or makes */
} DemiScope;

typedef struct DemiApi DemiApi;

/* A pass. */
typedef struct DemiPluginPass {
    uint32_t size;
    DemiScope scope;
    const char *name;              /* of a-z, 0-9 and '-'; that of no other pass */
    const char *summary;           /* one phrase; may be NULL */
    uint32_t needs, gives, breaks; /* DEMI_FACT bits */
    bool idempotent;               /* a second run changes nothing */
    size_t option_count;
    const DemiPluginOption *options;
    /* Does the work. False: the pass fails, with what was given to api->fail. */
    bool (*run)(const DemiApi *api, DemiPassRun *run, DemiGraph *graph);
} DemiPluginPass;

/* A plug-in: static data, or at least data that stays while the object is loaded. */
typedef struct DemiPlugin {
    uint32_t size;
    uint32_t api_size; /* of the DemiApi it was built for */
    size_t pass_count;
    const DemiPluginPass *passes;
} DemiPlugin;

/* First members of an initializer: {DEMI_PLUGIN_PASS_INIT, .name = …}. */
#define DEMI_PLUGIN_OPTION_INIT .size = sizeof(DemiPluginOption)
#define DEMI_PLUGIN_PASS_INIT   .size = sizeof(DemiPluginPass)
#define DEMI_PLUGIN_INIT        .size = sizeof(DemiPlugin), .api_size = sizeof(DemiApi)

/* Of demi_plugin_v1, below. NULL refuses to work with this demi. */
typedef const DemiPlugin *(*DemiPluginEntry)(const DemiApi *api);

/* A node to be made. */
typedef struct DemiNewNode {
    uint32_t size;
    const char *op_type;
    const char *domain;       /* NULL: the default one. It must be imported */
    const char *name;         /* NULL: none */
    DemiNode *before;         /* the node goes before this one; NULL: to the graph's end */
    DemiValue *const *inputs; /* [input_count]; NULL: omitted */
    size_t input_count;
    /* [output_count] names; what is taken gets a number. NULL: made up. */
    const char *const *outputs;
    size_t output_count; /* new values without type: value_set_type tells it */
} DemiNewNode;

#define DEMI_NEW_NODE_INIT .size = sizeof(DemiNewNode)

struct DemiApi {
    uint32_t size;
    uint32_t version;         /* 1 */
    const char *demi_version; /* as demi_version() */

    /* ---- the run ----------------------------------------------------------------------------- */

    /* Fails the pass, with one phrase and the node it is about (may be NULL). Returns false, so
     * that a pass writes `return api->fail(…)`. The first failure stays. */
    bool (*fail)(DemiPassRun *run, DemiStatus status, const DemiNode *node, const char *format, ...)
        DEMI_PRINTF(4, 5);
    /* Says what to do about the failure. Returns false. */
    bool (*hint)(DemiPassRun *run, const char *format, ...) DEMI_PRINTF(2, 3);
    bool (*failed)(const DemiPassRun *run);
    /* Counts changes, for reports. */
    void (*rewrote)(DemiPassRun *run, uint64_t count);
    /* Text for the user, to where the `print` pass writes. */
    bool (*print)(DemiPassRun *run, const char *format, ...) DEMI_PRINTF(2, 3);
    /* Zeroed memory aligned to 8, which ends with the pass. */
    void *(*alloc)(DemiPassRun *run, size_t size);
    /* DEMI_FACT bits that hold now. */
    uint32_t (*facts)(const DemiPassRun *run);

    /* This run's options. One that the pass has not declared so is a failure. */
    bool (*option_bool)(DemiPassRun *run, const char *name);
    int64_t (*option_int)(DemiPassRun *run, const char *name);
    /* NULL: not given, no default. */
    const char *(*option_string)(DemiPassRun *run, const char *name);
    size_t (*option_choice)(DemiPassRun *run, const char *name); /* index into its choices */
    /* [*count] texts; NULL and 0 where none are given. count may be NULL. */
    const char *const *(*option_strings)(DemiPassRun *run, const char *name, size_t *count);

    /* ---- the model --------------------------------------------------------------------------- */

    DemiGraph *(*main_graph)(const DemiPassRun *run);
    /* All graphs, as for DEMI_SCOPE_GRAPHS. */
    DemiGraph *const *(*graphs)(DemiPassRun *run, size_t *count);
    int64_t (*ir_version)(const DemiPassRun *run); /* 0: the file has none */
    const char *(*model_metadata)(const DemiPassRun *run, const char *key); /* NULL: no such key */
    bool (*model_set_metadata)(DemiPassRun *run, const char *key, const char *value);

    size_t (*function_count)(const DemiPassRun *run);
    DemiFunction *(*function_at)(const DemiPassRun *run, size_t i);
    /* The function that a node calls; NULL where it is an operator. */
    DemiFunction *(*called_function)(const DemiPassRun *run, const DemiNode *node);
    const char *(*function_name)(const DemiFunction *function);
    const char *(*function_domain)(const DemiFunction *function);
    DemiGraph *(*function_body)(const DemiFunction *function);

    /* ---- graphs ------------------------------------------------------------------------------ */

    const char *(*graph_name)(const DemiGraph *graph);
    DemiGraph *(*graph_parent)(const DemiGraph *graph); /* NULL: main graph, function's body */
    DemiNode *(*graph_owner)(const DemiGraph *graph);   /* of a subgraph: the node that holds it */
    DemiFunction *(*graph_function)(const DemiGraph *graph); /* that it lies in, or NULL */
    DemiNode *(*graph_first)(const DemiGraph *graph);
    DemiNode *(*graph_last)(const DemiGraph *graph);
    size_t (*graph_node_count)(const DemiGraph *graph);
    size_t (*graph_input_count)(const DemiGraph *graph);
    DemiValue *(*graph_input)(const DemiGraph *graph, size_t i);
    size_t (*graph_output_count)(const DemiGraph *graph);
    DemiUse *(*graph_output)(const DemiGraph *graph, size_t i);
    /* As declared, or NULL. */
    const DemiType *(*graph_output_type)(const DemiGraph *graph, size_t i);
    size_t (*graph_initializer_count)(const DemiGraph *graph); /* but for sparse ones */
    DemiValue *(*graph_initializer)(const DemiGraph *graph, size_t i);
    /* The value of that name defined in this graph, or NULL. Looks through all of them. */
    DemiValue *(*graph_find_value)(const DemiGraph *graph, const char *name);
    /* The version of a domain ("" or NULL: the default one) for the graph's nodes; 0: none. */
    int64_t (*graph_opset)(const DemiGraph *graph, const char *domain);
    /* Imports a domain that is not imported yet, for the model or function the graph lies in. */
    bool (*graph_import)(DemiPassRun *run, DemiGraph *graph, const char *domain, int64_t version);

    /* ---- nodes ------------------------------------------------------------------------------- */

    /* In the graph's order; get it before a removal. */
    DemiNode *(*node_next)(const DemiNode *node);
    DemiNode *(*node_previous)(const DemiNode *node);
    DemiGraph *(*node_graph)(const DemiNode *node);
    const char *(*node_op_type)(const DemiNode *node);
    /* "" for the default one, however it is spelt. */
    const char *(*node_domain)(const DemiNode *node);
    const char *(*node_name)(const DemiNode *node);
    const char *(*node_label)(const DemiNode *node); /* its name, or its first output's */
    /* True where demi has a definition of the operator at the graph's opset, or the model of the
     * function: the node then does nothing but compute its outputs. */
    bool (*node_is_known)(const DemiNode *node);
    size_t (*node_input_count)(const DemiNode *node);
    DemiValue *(*node_input)(const DemiNode *node, size_t i); /* NULL: omitted */
    DemiUse *(*node_input_use)(const DemiNode *node, size_t i);
    size_t (*node_output_count)(const DemiNode *node);
    DemiValue *(*node_output)(const DemiNode *node, size_t i);           /* NULL: omitted */
    const char *(*node_metadata)(const DemiNode *node, const char *key); /* NULL: no such key */

    DemiNode *(*node_new)(DemiPassRun *run, DemiGraph *graph, const DemiNewNode *of);
    bool (*node_set_name)(DemiPassRun *run, DemiNode *node, const char *name);
    /* Makes it a call of another operator, with the same operands and attributes. */
    bool (*node_set_op)(DemiPassRun *run, DemiNode *node, const char *domain, const char *op_type);
    /* i up to the number of inputs, which grows with the last; NULL omits the input. */
    bool (*node_set_input)(DemiPassRun *run, DemiNode *node, size_t i, DemiValue *value);
    /* Adds omitted inputs, or drops the last ones. Ends the node's DemiUse handles. */
    bool (*node_set_input_count)(DemiPassRun *run, DemiNode *node, size_t count);
    /* A new output, named so or, where that is taken, with a number; NULL: made up. */
    DemiValue *(*node_add_output)(DemiPassRun *run, DemiNode *node, const char *name);
    /* Omits an output that nobody reads. */
    bool (*node_omit_output)(DemiPassRun *run, DemiNode *node, size_t i);
    /* before: a node of the same graph; NULL: to its end. */
    bool (*node_move)(DemiPassRun *run, DemiNode *node, DemiNode *before);
    /* Takes the node away, and with it its subgraphs. Nobody may read its outputs any more. */
    bool (*node_remove)(DemiPassRun *run, DemiNode *node);
    bool (*node_set_metadata)(DemiPassRun *run, DemiNode *node, const char *key, const char *value);

    /* ---- values and uses --------------------------------------------------------------------- */

    const char *(*value_name)(const DemiValue *value);
    DemiGraph *(*value_graph)(const DemiValue *value);
    DemiNode *(*value_producer)(const DemiValue *value);  /* NULL: an input or initializer */
    size_t (*value_output_index)(const DemiValue *value); /* which of the producer's outputs */
    size_t (*value_use_count)(const DemiValue *value);
    DemiUse *(*value_first_use)(const DemiValue *value);   /* in no promised order */
    const DemiType *(*value_type)(const DemiValue *value); /* what is known of it; NULL: nothing */
    /* Of its innermost tensors; UNDEFINED: unknown. */
    DemiDtype (*value_dtype)(const DemiValue *value);
    bool (*value_is_input)(const DemiValue *value);
    bool (*value_is_output)(const DemiValue *value); /* of any graph */
    bool (*value_is_initializer)(const DemiValue *value);
    /* An annotation or training binding of the file names it: it can't be removed. */
    bool (*value_is_referenced)(const DemiValue *value);
    /* The data of a constant: an initializer that no caller can override, or what a Constant node
     * makes. NULL: no constant, or one of strings or sparse. */
    const DemiTensor *(*value_constant)(DemiPassRun *run, const DemiValue *value);
    const DemiTensor *(*value_initializer)(const DemiValue *value); /* of an input: its default */

    DemiUse *(*use_next)(const DemiUse *use); /* of the same value; get it before the use is set */
    DemiValue *(*use_value)(const DemiUse *use);
    DemiNode *(*use_node)(const DemiUse *use); /* the reader; NULL: it is an output of use_graph */
    DemiGraph *(*use_graph)(const DemiUse *use);
    size_t (*use_index)(const DemiUse *use); /* which of the node's inputs or the graph's outputs */

    /* Makes one place read another value. An output of the main graph, of a function or of a
     * training graph keeps its name, which it has from its value: so this first tries to give that
     * name to `value`, and where it may not have it puts an Identity between. */
    bool (*use_set)(DemiPassRun *run, DemiUse *use, DemiValue *value);
    /* The same for all places that read `from`. */
    bool (*value_replace)(DemiPassRun *run, DemiValue *from, DemiValue *to);
    /* A name that no value of the model has. Graph inputs and outputs of the main graph are called
     * by it, so it is their interface that changes. */
    bool (*value_rename)(DemiPassRun *run, DemiValue *value, const char *name);
    /* NULL: it is not known. What the file declares of inner values follows. */
    bool (*value_set_type)(DemiPassRun *run, DemiValue *value, const DemiType *type);
    /* What the file declares of a graph's input or output, besides. */
    bool (*graph_declare_input)(DemiPassRun *run, DemiGraph *graph, size_t i, DemiDtype dtype);
    bool (*graph_declare_output)(DemiPassRun *run, DemiGraph *graph, size_t i, DemiDtype dtype);

    /* A new initializer, named so or, where that is taken, with a number; it has the tensor's type.
     * A function's body can have none: there it is the output of a Constant node, the first one. */
    DemiValue *(*initializer_new)(DemiPassRun *run, DemiGraph *graph, const char *name,
                                  const DemiTensor *tensor);
    /* Replaces a constant's data, and its type with it. */
    bool (*constant_set)(DemiPassRun *run, DemiValue *value, const DemiTensor *tensor);
    /* Takes an initializer away that nobody reads. */
    bool (*initializer_remove)(DemiPassRun *run, DemiValue *value);

    /* ---- subgraphs --------------------------------------------------------------------------- */

    /* A new, empty graph as the node's attribute of that name. */
    DemiGraph *(*subgraph_new)(DemiPassRun *run, DemiNode *node, const char *attribute);
    /* Adds an input or output, as the last one, to a subgraph or the main graph; not to a function,
     * whose calls would no longer fit. The input is named so or, where that is taken, with a
     * number. An output is called by its value, whose type must be known in the main graph. */
    DemiValue *(*graph_add_input)(DemiPassRun *run, DemiGraph *graph, const char *name,
                                  const DemiType *type);
    bool (*graph_add_output)(DemiPassRun *run, DemiGraph *graph, DemiValue *value);

    /* ---- attributes -------------------------------------------------------------------------- */

    DemiAttr *(*node_first_attr)(const DemiNode *node);
    DemiAttr *(*attr_next)(const DemiAttr *attr);
    DemiAttr *(*node_attr)(const DemiNode *node, const char *name); /* NULL: absent */
    const char *(*attr_name)(const DemiAttr *attr);
    DemiAttrType (*attr_type)(const DemiAttr *attr);
    /* The function's it stands for; NULL: none. */
    const char *(*attr_parameter)(const DemiAttr *attr);
    /* Values of an attribute of that type; `otherwise` (or NULL) where it is absent or another. */
    int64_t (*attr_int)(const DemiAttr *attr, int64_t otherwise);
    double (*attr_float)(const DemiAttr *attr, double otherwise);
    /* Ended by NUL, and may hold others: size may be NULL. */
    const char *(*attr_string)(DemiPassRun *run, const DemiAttr *attr, size_t *size);
    const DemiTensor *(*attr_tensor)(const DemiAttr *attr);
    DemiGraph *(*attr_graph)(const DemiAttr *attr);
    const DemiType *(*attr_type_value)(const DemiAttr *attr);
    /* Lists: the number of items, and each. */
    size_t (*attr_count)(const DemiAttr *attr);
    const int64_t *(*attr_ints)(const DemiAttr *attr);
    const float *(*attr_floats)(const DemiAttr *attr);
    const char *(*attr_string_at)(DemiPassRun *run, const DemiAttr *attr, size_t i, size_t *size);
    const DemiTensor *(*attr_tensor_at)(const DemiAttr *attr, size_t i);
    DemiGraph *(*attr_graph_at)(const DemiAttr *attr, size_t i);

    /* Add or replace. */
    bool (*node_set_int)(DemiPassRun *run, DemiNode *node, const char *name, int64_t value);
    bool (*node_set_float)(DemiPassRun *run, DemiNode *node, const char *name, double value);
    bool (*node_set_string)(DemiPassRun *run, DemiNode *node, const char *name, const char *value);
    bool (*node_set_tensor)(DemiPassRun *run, DemiNode *node, const char *name,
                            const DemiTensor *tensor);
    bool (*node_set_type)(DemiPassRun *run, DemiNode *node, const char *name, const DemiType *type);
    bool (*node_set_ints)(DemiPassRun *run, DemiNode *node, const char *name, const int64_t *values,
                          size_t count);
    bool (*node_set_floats)(DemiPassRun *run, DemiNode *node, const char *name, const float *values,
                            size_t count);
    bool (*node_set_strings)(DemiPassRun *run, DemiNode *node, const char *name,
                             const char *const *values, size_t count);
    /* Not for one that holds a graph: nodes of it may be in use. */
    bool (*node_remove_attr)(DemiPassRun *run, DemiNode *node, const char *name);

    /* ---- types ------------------------------------------------------------------------------- */

    const char *(*dtype_name)(DemiDtype dtype);     /* "float", "float16", … */
    DemiDtype (*dtype_from_name)(const char *name); /* also float32, fp16, half, … */
    unsigned (*dtype_bits)(DemiDtype dtype);        /* of one element; 0: strings */

    DemiTypeKind (*type_kind)(const DemiType *type);
    DemiDtype (*type_dtype)(const DemiType *type);         /* of its innermost tensors */
    const DemiType *(*type_element)(const DemiType *type); /* of sequences and optionals */
    bool (*type_has_rank)(const DemiType *type);
    size_t (*type_rank)(const DemiType *type);
    /* Axis i: its length, or -1; a symbolic one's name goes to *symbol (may be NULL), else NULL. */
    int64_t (*type_dim)(const DemiType *type, size_t i, const char **symbol);

    /* A tensor type. dims[rank]: lengths, -1 where unknown; symbols (may be NULL)[rank]: names of
     * such axes, or NULL. dims NULL: of unknown rank. */
    const DemiType *(*type_tensor)(DemiPassRun *run, DemiDtype dtype, const int64_t *dims,
                                   const char *const *symbols, size_t rank);
    const DemiType *(*type_sequence)(DemiPassRun *run, const DemiType *element);
    const DemiType *(*type_optional)(DemiPassRun *run, const DemiType *element);
    /* The same type with other elements. */
    const DemiType *(*type_with_dtype)(DemiPassRun *run, const DemiType *type, DemiDtype dtype);

    /* ---- tensors ----------------------------------------------------------------------------- */

    DemiDtype (*tensor_dtype)(const DemiTensor *tensor);
    size_t (*tensor_rank)(const DemiTensor *tensor);
    const int64_t *(*tensor_dims)(const DemiTensor *tensor);
    uint64_t (*tensor_count)(const DemiTensor *tensor); /* elements */
    /* Of them, packed as in raw_data; 0: strings. */
    uint64_t (*tensor_bytes)(const DemiTensor *tensor);
    /* Bytes of the packed, little-endian form. offset and size: multiples of an element's bytes. */
    bool (*tensor_read)(DemiPassRun *run, const DemiTensor *tensor, uint64_t offset, void *buffer,
                        uint64_t size);
    /* Elements [first, first + count) of a float, float16 or bfloat16 tensor, as float; of an
     * integer or bool tensor, as int64. */
    bool (*tensor_read_floats)(DemiPassRun *run, const DemiTensor *tensor, uint64_t first,
                               uint64_t count, float *out);
    bool (*tensor_read_ints)(DemiPassRun *run, const DemiTensor *tensor, uint64_t first,
                             uint64_t count, int64_t *out);
    const char *(*tensor_string)(DemiPassRun *run, const DemiTensor *tensor, uint64_t i,
                                 size_t *size);

    /* New tensors. bytes: packed as in raw_data, exactly as many as dims and dtype need. */
    const DemiTensor *(*tensor_new)(DemiPassRun *run, DemiDtype dtype, const int64_t *dims,
                                    size_t rank, const void *bytes);
    const DemiTensor *(*tensor_new_strings)(DemiPassRun *run, const int64_t *dims, size_t rank,
                                            const char *const *strings);
    /* A float, float16 or bfloat16 tensor in another of these types, converted when it is read. */
    const DemiTensor *(*tensor_new_cast)(DemiPassRun *run, const DemiTensor *of, DemiDtype dtype);
};

/* What a shared object defines. */
DEMI_PLUGIN_EXPORT const DemiPlugin *demi_plugin_v1(const DemiApi *api);

#ifdef __cplusplus
}
#endif

#endif
