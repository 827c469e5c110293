// SPDX-License-Identifier: Apache-2.0
/* The interface for your own passes, in a shared object (a plug-in).
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
 * To build it: `cc -shared -fPIC -o name.so name.c`. To run it: `demi opt --load-pass ./name.so
 * --passes name-nodes`, or demi_passes_load. A plug-in links against nothing: everything it calls
 * is in the DemiApi that it receives. tools/examples in demi's source has an example.
 *
 * Conventions
 * - demi owns handles (DemiNode, …). They live as long as the model, and mean nothing in another
 *   model. Strings and arrays that functions return live until the pass ends. What is passed in is
 *   copied.
 * - Functions that only read accept NULL and indices out of range. They then return NULL, 0, false,
 *   or "". A string that the file lacks is "".
 * - Functions that take a DemiPassRun that is not const can fail, and then return NULL or false.
 *   The run keeps the error: from then on, all of them fail, and so does the pass, whatever it
 *   returns. A pass may therefore take many steps and check only at the end. Changing something
 *   through a NULL handle is such a failure.
 * - Running out of memory is such a failure, too. demi never jumps across the frames of a plug-in,
 *   so these may hold C++ objects, locks, or open files. A plug-in must not jump or throw across
 *   those of demi.
 * - Each change keeps the structure consistent, and demi verifies the whole model after the pass;
 *   an error then names the pass. What can be wrong is the order (a node before what it reads), and
 *   missing definitions.
 * - Functions and sparse tensors cannot be made, and graph inputs and outputs cannot be removed.
 *   Those that exist are visible and preserved.
 * - A pass must not call demi.h with the model that it works on.
 * - Threads: a run belongs to the thread in which it is called. Runs on different models may be
 *   active at the same time, so a pass keeps its state in the memory of the run (alloc), not in
 *   static variables.
 * - Structures begin with their size, and DemiApi only grows at its end: a plug-in that was built
 *   for an older demi keeps working. A plug-in that was built for a newer demi is refused, unless
 *   it sets api_size to a smaller size and checks DemiApi.size before it calls newer functions.
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

typedef struct DemiPassRun DemiPassRun; /* one run of a pass on one model */
typedef struct DemiGraph DemiGraph;     /* the main graph, a subgraph, or the body of a function */
typedef struct DemiNode DemiNode;       /* a call of an operator or function */
typedef struct DemiValue DemiValue;     /* a graph input, an initializer, or an output of a node */
typedef struct DemiUse DemiUse;         /* one place that reads a value */
typedef struct DemiAttr DemiAttr;       /* an attribute of a node; invalid once it is set again */
typedef struct DemiTensor DemiTensor;   /* constant data; immutable */
typedef struct DemiType DemiType;       /* of a value; immutable */
typedef struct DemiFunction DemiFunction; /* a function of the model's own */

typedef enum DemiTypeKind {
    DEMI_TYPE_NONE = 0, /* unknown */
    DEMI_TYPE_TENSOR = 1,
    DEMI_TYPE_SPARSE_TENSOR = 2,
    DEMI_TYPE_SEQUENCE = 3,
    DEMI_TYPE_OPTIONAL = 4,
    DEMI_TYPE_MAP = 5,
    DEMI_TYPE_OPAQUE = 6
} DemiTypeKind;

/* Attribute types; the numbers are those of ONNX. */
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

/* Facts about a model that a pass may need, provide, or invalidate. If DEMI_FACT_DTYPES holds, a
 * pass that makes values and does not invalidate it must give each of them a type; demi checks
 * that. */
enum {
    DEMI_FACT_DTYPES = 1, /* the element type of every value is known */
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
    const char *name; /* a-z, 0-9, and '-' */
    const char *help; /* one phrase; may be NULL */
    /* The default, as a pipeline spells it. NULL: false, 0, none, or the first choice. */
    const char *otherwise;
    const char *const *choices; /* CHOICE: names, terminated by NULL */
} DemiPluginOption;

typedef enum DemiScope {
    DEMI_SCOPE_MODEL = 0, /* run is called once, with the main graph */
    /* run is called with each graph, including subgraphs, bodies of functions, and training graphs,
     * outer before inner; not with graphs that it removes or makes. */
    DEMI_SCOPE_GRAPHS = 1,
} DemiScope;

typedef struct DemiApi DemiApi;

/* A pass. */
typedef struct DemiPluginPass {
    uint32_t size;
    DemiScope scope;
    const char *name;              /* a-z, 0-9, and '-'; unique among passes */
    const char *summary;           /* one phrase; may be NULL */
    uint32_t needs, gives, breaks; /* DEMI_FACT bits: needed, provided, invalidated */
    bool idempotent;               /* a second run changes nothing */
    size_t option_count;
    const DemiPluginOption *options;
    /* Runs the pass. Return false to fail it, with the error given to api->fail. */
    bool (*run)(const DemiApi *api, DemiPassRun *run, DemiGraph *graph);
} DemiPluginPass;

/* A plug-in: static data, or data that stays at least while the object is loaded. */
typedef struct DemiPlugin {
    uint32_t size;
    uint32_t api_size; /* size of the DemiApi that it was built for */
    size_t pass_count;
    const DemiPluginPass *passes;
} DemiPlugin;

/* The first members of an initializer: {DEMI_PLUGIN_PASS_INIT, .name = …}. */
#define DEMI_PLUGIN_OPTION_INIT .size = sizeof(DemiPluginOption)
#define DEMI_PLUGIN_PASS_INIT   .size = sizeof(DemiPluginPass)
#define DEMI_PLUGIN_INIT        .size = sizeof(DemiPlugin), .api_size = sizeof(DemiApi)

/* The type of demi_plugin_v1, below. Return NULL to refuse to work with this demi. */
typedef const DemiPlugin *(*DemiPluginEntry)(const DemiApi *api);

/* A node to make. */
typedef struct DemiNewNode {
    uint32_t size;
    const char *op_type;
    const char *domain;       /* must be imported; NULL: the default domain */
    const char *name;         /* NULL: none */
    DemiNode *before;         /* insert it before this node; NULL: at the end of the graph */
    DemiValue *const *inputs; /* [input_count]; NULL: omitted */
    size_t input_count;
    /* [output_count] names; a name that is taken gets a number appended. NULL: generated names. */
    const char *const *outputs;
    size_t output_count; /* new values without a type, which value_set_type sets */
} DemiNewNode;

#define DEMI_NEW_NODE_INIT .size = sizeof(DemiNewNode)

struct DemiApi {
    uint32_t size;
    uint32_t version;         /* 1 */
    const char *demi_version; /* as demi_version() */

    /* ---- the run ----------------------------------------------------------------------------- */

    /* Fails the pass, with one phrase and the node that it is about (may be NULL). Returns false,
     * so that a pass can write `return api->fail(…)`. The first failure wins. */
    bool (*fail)(DemiPassRun *run, DemiStatus status, const DemiNode *node, const char *format, ...)
        DEMI_PRINTF(4, 5);
    /* Says what to do about the failure. Returns false. */
    bool (*hint)(DemiPassRun *run, const char *format, ...) DEMI_PRINTF(2, 3);
    bool (*failed)(const DemiPassRun *run);
    /* Counts changes, for reports. */
    void (*rewrote)(DemiPassRun *run, uint64_t count);
    /* Prints text for the user, where the `print` pass writes. */
    bool (*print)(DemiPassRun *run, const char *format, ...) DEMI_PRINTF(2, 3);
    /* Returns zeroed memory, aligned to 8 bytes, which is freed when the pass ends. */
    void *(*alloc)(DemiPassRun *run, size_t size);
    /* Returns the DEMI_FACT bits that hold now. */
    uint32_t (*facts)(const DemiPassRun *run);

    /* The options of this run. An option that the pass did not declare with this kind is a
     * failure. */
    bool (*option_bool)(DemiPassRun *run, const char *name);
    int64_t (*option_int)(DemiPassRun *run, const char *name);
    /* NULL: not given, and no default. */
    const char *(*option_string)(DemiPassRun *run, const char *name);
    size_t (*option_choice)(DemiPassRun *run, const char *name); /* index into its choices */
    /* [*count] texts; NULL and 0 if none are given. count may be NULL. */
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
    /* Returns the function that a node calls; NULL if it is an operator. */
    DemiFunction *(*called_function)(const DemiPassRun *run, const DemiNode *node);
    const char *(*function_name)(const DemiFunction *function);
    const char *(*function_domain)(const DemiFunction *function);
    DemiGraph *(*function_body)(const DemiFunction *function);

    /* ---- graphs ------------------------------------------------------------------------------ */

    const char *(*graph_name)(const DemiGraph *graph);
    DemiGraph *(*graph_parent)(const DemiGraph *graph); /* NULL: main graph, body of a function */
    DemiNode *(*graph_owner)(const DemiGraph *graph);   /* the node that holds a subgraph */
    DemiFunction *(*graph_function)(const DemiGraph *graph); /* that contains it, or NULL */
    DemiNode *(*graph_first)(const DemiGraph *graph);
    DemiNode *(*graph_last)(const DemiGraph *graph);
    size_t (*graph_node_count)(const DemiGraph *graph);
    size_t (*graph_input_count)(const DemiGraph *graph);
    DemiValue *(*graph_input)(const DemiGraph *graph, size_t i);
    size_t (*graph_output_count)(const DemiGraph *graph);
    DemiUse *(*graph_output)(const DemiGraph *graph, size_t i);
    /* The declared type, or NULL. */
    const DemiType *(*graph_output_type)(const DemiGraph *graph, size_t i);
    size_t (*graph_initializer_count)(const DemiGraph *graph); /* without sparse initializers */
    DemiValue *(*graph_initializer)(const DemiGraph *graph, size_t i);
    /* Returns the value of that name defined in this graph, or NULL. It searches all of them. */
    DemiValue *(*graph_find_value)(const DemiGraph *graph, const char *name);
    /* Returns the opset of a domain ("" or NULL: the default) for the graph's nodes; 0: none. */
    int64_t (*graph_opset)(const DemiGraph *graph, const char *domain);
    /* Imports a domain that is not imported yet, into the model or function that has the graph. */
    bool (*graph_import)(DemiPassRun *run, DemiGraph *graph, const char *domain, int64_t version);

    /* ---- nodes ------------------------------------------------------------------------------- */

    /* Neighbors in the order of the graph; call them before removing the node. */
    DemiNode *(*node_next)(const DemiNode *node);
    DemiNode *(*node_previous)(const DemiNode *node);
    DemiGraph *(*node_graph)(const DemiNode *node);
    const char *(*node_op_type)(const DemiNode *node);
    /* "" for the default domain, however it is spelled. */
    const char *(*node_domain)(const DemiNode *node);
    const char *(*node_name)(const DemiNode *node);
    const char *(*node_label)(const DemiNode *node); /* its name, or that of its first output */
    /* Returns true if demi has a definition of the operator at the graph's opset, or the model has
     * one of the function. Such a node does nothing but compute its outputs. */
    bool (*node_is_known)(const DemiNode *node);
    size_t (*node_input_count)(const DemiNode *node);
    DemiValue *(*node_input)(const DemiNode *node, size_t i); /* NULL: omitted */
    DemiUse *(*node_input_use)(const DemiNode *node, size_t i);
    size_t (*node_output_count)(const DemiNode *node);
    DemiValue *(*node_output)(const DemiNode *node, size_t i);           /* NULL: omitted */
    const char *(*node_metadata)(const DemiNode *node, const char *key); /* NULL: no such key */

    DemiNode *(*node_new)(DemiPassRun *run, DemiGraph *graph, const DemiNewNode *of);
    bool (*node_set_name)(DemiPassRun *run, DemiNode *node, const char *name);
    /* Changes the operator of the node, which keeps its operands and attributes. */
    bool (*node_set_op)(DemiPassRun *run, DemiNode *node, const char *domain, const char *op_type);
    /* i is at most the number of inputs, where it appends one; NULL omits the input. */
    bool (*node_set_input)(DemiPassRun *run, DemiNode *node, size_t i, DemiValue *value);
    /* Appends omitted inputs, or drops the last inputs. Invalidates the node's DemiUse handles. */
    bool (*node_set_input_count)(DemiPassRun *run, DemiNode *node, size_t count);
    /* Appends an output of that name, with a number appended if it is taken; NULL: a generated
     * name. */
    DemiValue *(*node_add_output)(DemiPassRun *run, DemiNode *node, const char *name);
    /* Omits an output that nothing reads. */
    bool (*node_omit_output)(DemiPassRun *run, DemiNode *node, size_t i);
    /* Moves the node before a node of the same graph; NULL: to the end of the graph. */
    bool (*node_move)(DemiPassRun *run, DemiNode *node, DemiNode *before);
    /* Removes the node with its subgraphs. Nothing may read its outputs anymore. */
    bool (*node_remove)(DemiPassRun *run, DemiNode *node);
    bool (*node_set_metadata)(DemiPassRun *run, DemiNode *node, const char *key, const char *value);

    /* ---- values and uses --------------------------------------------------------------------- */

    const char *(*value_name)(const DemiValue *value);
    DemiGraph *(*value_graph)(const DemiValue *value);
    DemiNode *(*value_producer)(const DemiValue *value);  /* NULL: an input or initializer */
    size_t (*value_output_index)(const DemiValue *value); /* which output of the producer */
    size_t (*value_use_count)(const DemiValue *value);
    DemiUse *(*value_first_use)(const DemiValue *value);   /* uses are in no particular order */
    const DemiType *(*value_type)(const DemiValue *value); /* what is known of it; NULL: nothing */
    /* The element type of its innermost tensors; UNDEFINED: unknown. */
    DemiDtype (*value_dtype)(const DemiValue *value);
    bool (*value_is_input)(const DemiValue *value);
    bool (*value_is_output)(const DemiValue *value); /* of any graph */
    bool (*value_is_initializer)(const DemiValue *value);
    /* Returns true if an annotation or training binding of the file names it: then it cannot be
     * removed. */
    bool (*value_is_referenced)(const DemiValue *value);
    /* Returns the data of a constant: an initializer that callers cannot override, or the output of
     * a Constant node. NULL: not a constant, or one of strings, or sparse. */
    const DemiTensor *(*value_constant)(DemiPassRun *run, const DemiValue *value);
    const DemiTensor *(*value_initializer)(const DemiValue *value); /* of an input: its default */

    DemiUse *(*use_next)(
        const DemiUse *use); /* of the same value; call it before setting the use */
    DemiValue *(*use_value)(const DemiUse *use);
    DemiNode *(*use_node)(const DemiUse *use); /* the reader; NULL: it is an output of use_graph */
    DemiGraph *(*use_graph)(const DemiUse *use);
    size_t (*use_index)(const DemiUse *use); /* which input of the node, or output of the graph */

    /* Makes one place read another value. An output of the main graph, of a function, or of a
     * training graph must keep its name, which is that of its value. So this function first tries
     * to give that name to `value`; if `value` cannot have it, it inserts an Identity. */
    bool (*use_set)(DemiPassRun *run, DemiUse *use, DemiValue *value);
    /* The same for all places that read `from`. */
    bool (*value_replace)(DemiPassRun *run, DemiValue *from, DemiValue *to);
    /* Renames a value; no value of the model may have that name. For inputs and outputs of the main
     * graph, this changes the model's interface. */
    bool (*value_rename)(DemiPassRun *run, DemiValue *value, const char *name);
    /* Sets the type of a value; NULL: unknown. For intermediate values, the declaration in the file
     * follows. */
    bool (*value_set_type)(DemiPassRun *run, DemiValue *value, const DemiType *type);
    /* Also changes the declared type of a graph's input or output. */
    bool (*graph_declare_input)(DemiPassRun *run, DemiGraph *graph, size_t i, DemiDtype dtype);
    bool (*graph_declare_output)(DemiPassRun *run, DemiGraph *graph, size_t i, DemiDtype dtype);

    /* Makes an initializer of that name, with a number appended if it is taken, and with the
     * tensor's type. The body of a function cannot have initializers: there, it is the output of a
     * Constant node, which becomes the first node. */
    DemiValue *(*initializer_new)(DemiPassRun *run, DemiGraph *graph, const char *name,
                                  const DemiTensor *tensor);
    /* Replaces the data of a constant, and thus its type. */
    bool (*constant_set)(DemiPassRun *run, DemiValue *value, const DemiTensor *tensor);
    /* Removes an initializer that nothing reads. */
    bool (*initializer_remove)(DemiPassRun *run, DemiValue *value);

    /* ---- subgraphs --------------------------------------------------------------------------- */

    /* Makes a new, empty graph as the attribute of that name. */
    DemiGraph *(*subgraph_new)(DemiPassRun *run, DemiNode *node, const char *attribute);
    /* Append an input or output to a subgraph or the main graph; not to a function, since its calls
     * would no longer match. An input name that is taken gets a number appended. The name of an
     * output is that of its value, whose type must be known in the main graph. */
    DemiValue *(*graph_add_input)(DemiPassRun *run, DemiGraph *graph, const char *name,
                                  const DemiType *type);
    bool (*graph_add_output)(DemiPassRun *run, DemiGraph *graph, DemiValue *value);

    /* ---- attributes -------------------------------------------------------------------------- */

    DemiAttr *(*node_first_attr)(const DemiNode *node);
    DemiAttr *(*attr_next)(const DemiAttr *attr);
    DemiAttr *(*node_attr)(const DemiNode *node, const char *name); /* NULL: absent */
    const char *(*attr_name)(const DemiAttr *attr);
    DemiAttrType (*attr_type)(const DemiAttr *attr);
    /* The attribute of the function that it refers to; NULL: none. */
    const char *(*attr_parameter)(const DemiAttr *attr);
    /* The value of an attribute; `otherwise` (or NULL) if it is absent or has a different type. */
    int64_t (*attr_int)(const DemiAttr *attr, int64_t otherwise);
    double (*attr_float)(const DemiAttr *attr, double otherwise);
    /* NUL-terminated, and may contain NUL characters; size may be NULL. */
    const char *(*attr_string)(DemiPassRun *run, const DemiAttr *attr, size_t *size);
    const DemiTensor *(*attr_tensor)(const DemiAttr *attr);
    DemiGraph *(*attr_graph)(const DemiAttr *attr);
    const DemiType *(*attr_type_value)(const DemiAttr *attr);
    /* Lists: the number of items, and the items. */
    size_t (*attr_count)(const DemiAttr *attr);
    const int64_t *(*attr_ints)(const DemiAttr *attr);
    const float *(*attr_floats)(const DemiAttr *attr);
    const char *(*attr_string_at)(DemiPassRun *run, const DemiAttr *attr, size_t i, size_t *size);
    const DemiTensor *(*attr_tensor_at)(const DemiAttr *attr, size_t i);
    DemiGraph *(*attr_graph_at)(const DemiAttr *attr, size_t i);

    /* Add or replace an attribute. */
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
    /* Removes an attribute, except one that holds a graph, whose nodes may be in use. */
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
    /* Returns the size of axis i, or -1. *symbol (may be NULL) receives the name of a symbolic
     * size, otherwise NULL. */
    int64_t (*type_dim)(const DemiType *type, size_t i, const char **symbol);

    /* Makes a tensor type. dims[rank]: sizes, -1 if unknown; NULL: unknown rank. symbols[rank] (may
     * be NULL): names of such sizes, or NULL. */
    const DemiType *(*type_tensor)(DemiPassRun *run, DemiDtype dtype, const int64_t *dims,
                                   const char *const *symbols, size_t rank);
    const DemiType *(*type_sequence)(DemiPassRun *run, const DemiType *element);
    const DemiType *(*type_optional)(DemiPassRun *run, const DemiType *element);
    /* Makes the same type with another element type. */
    const DemiType *(*type_with_dtype)(DemiPassRun *run, const DemiType *type, DemiDtype dtype);

    /* ---- tensors ----------------------------------------------------------------------------- */

    DemiDtype (*tensor_dtype)(const DemiTensor *tensor);
    size_t (*tensor_rank)(const DemiTensor *tensor);
    const int64_t *(*tensor_dims)(const DemiTensor *tensor);
    uint64_t (*tensor_count)(const DemiTensor *tensor); /* elements */
    /* Bytes of the elements, packed as in raw_data; 0: strings. */
    uint64_t (*tensor_bytes)(const DemiTensor *tensor);
    /* Reads bytes of the packed, little-endian form. offset and size are multiples of the bytes of
     * an element. */
    bool (*tensor_read)(DemiPassRun *run, const DemiTensor *tensor, uint64_t offset, void *buffer,
                        uint64_t size);
    /* Read elements [first, first + count): those of a float, float16, or bfloat16 tensor as float;
     * those of an integer or bool tensor as int64. */
    bool (*tensor_read_floats)(DemiPassRun *run, const DemiTensor *tensor, uint64_t first,
                               uint64_t count, float *out);
    bool (*tensor_read_ints)(DemiPassRun *run, const DemiTensor *tensor, uint64_t first,
                             uint64_t count, int64_t *out);
    const char *(*tensor_string)(DemiPassRun *run, const DemiTensor *tensor, uint64_t i,
                                 size_t *size);

    /* Make tensors. bytes: packed as in raw_data, exactly as many as dims and dtype require. */
    const DemiTensor *(*tensor_new)(DemiPassRun *run, DemiDtype dtype, const int64_t *dims,
                                    size_t rank, const void *bytes);
    const DemiTensor *(*tensor_new_strings)(DemiPassRun *run, const int64_t *dims, size_t rank,
                                            const char *const *strings);
    /* Makes a float, float16, or bfloat16 tensor from one of another of these types; it is
     * converted when it is read. */
    const DemiTensor *(*tensor_new_cast)(DemiPassRun *run, const DemiTensor *of, DemiDtype dtype);
};

/* What a shared object defines. */
DEMI_PLUGIN_EXPORT const DemiPlugin *demi_plugin_v1(const DemiApi *api);

#ifdef __cplusplus
}
#endif

#endif
