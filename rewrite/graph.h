// SPDX-License-Identifier: Apache-2.0
/* The in-memory model: values, nodes, graphs, functions.
 *
 * A Value is one SSA name: a graph input, an initializer, or a node's output. A Use is one place
 * that reads a value: a node's input or a graph's output. Uses of a value form a doubly linked
 * list, so that adding, moving and removing one is O(1) and replacing all of them cannot miss any;
 * a subgraph that captures a value of an outer graph is simply another Use of it.
 *
 * Everything lives in the model's arena and is freed with it. Order is insertion order everywhere,
 * so output is deterministic. Fields may be read freely; they are changed only through the
 * functions below, which keep the use lists right and count the edits: a model without edits is
 * written as the very bytes it was read from.
 *
 * Nothing of a file is dropped: what this structure does not model is kept beside each object as
 * `rest`, the wire bytes of the ONNX message's remaining and unknown fields. NULL Syms are absent
 * fields; an empty Sym is a field that is present and empty.
 */
#ifndef DEMI_GRAPH_H
#define DEMI_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "dtype.h"
#include "err.h"
#include "source.h"
#include "sym.h"
#include "tensor.h"
#include "vec.h"

typedef struct Value Value;
typedef struct Node Node;
typedef struct Graph Graph;
typedef struct Function Function;
typedef struct Model Model;
typedef struct Attr Attr;

/* StringStringEntryProto lists: metadata_props, external_data, bindings. */
struct KeyValue {
    struct KeyValue *next;
    Sym key, value;
    Bytes rest;
};

/* ---- types ----------------------------------------------------------------------------------- */

typedef enum DimKind { DIM_UNKNOWN, DIM_KNOWN, DIM_SYMBOL } DimKind;

typedef struct DimExtra {
    Sym denotation;
    Bytes rest;
} DimExtra;

typedef struct Dim {
    DimKind kind;
    int64_t size;          /* KNOWN; as in the file, so check for negative ones */
    Sym symbol;            /* SYMBOL */
    const DimExtra *extra; /* NULL mostly */
} Dim;

typedef enum TypeKind {
    TYPE_NONE, /* a TypeProto with nothing set */
    TYPE_TENSOR,
    TYPE_SPARSE_TENSOR,
    TYPE_SEQUENCE, /* of elem */
    TYPE_OPTIONAL, /* of elem */
    TYPE_MAP,      /* from dtype to elem */
    TYPE_OPAQUE    /* kept in rest */
} TypeKind;

typedef struct TypeExtra {
    Sym denotation;
    Bytes rest;       /* of the TypeProto */
    Bytes inner_rest; /* of its Tensor, Sequence, … message */
    Bytes shape_rest; /* of its TensorShapeProto */
} TypeExtra;

/* Immutable. */
typedef struct Type {
    TypeKind kind;
    int32_t dtype;  /* TENSOR, SPARSE_TENSOR: element; MAP: key */
    bool has_dtype; /* the field is present on the wire */
    bool has_shape; /* TENSOR, SPARSE_TENSOR: the rank is known */
    uint32_t rank;
    const Dim *dims;         /* [rank] */
    const struct Type *elem; /* SEQUENCE, OPTIONAL, MAP; NULL where absent */
    const TypeExtra *extra;  /* NULL mostly */
} Type;

/* The tensor type of a dtype without shape: one for all models. */
const Type *type_plain_tensor(Dtype dtype);
/* A tensor type with these dims (borrowed, arena). */
const Type *type_new_shaped(Arena *arena, Dtype dtype, const Dim *dims, uint32_t rank);
/* That of a tensor's elements and dims. */
const Type *type_of_tensor(Arena *arena, const Tensor *tensor);
/* SEQUENCE or OPTIONAL of elem. */
const Type *type_new_wrapped(Arena *arena, TypeKind kind, const Type *elem);
/* The same type with the element dtype of its innermost tensor replaced; shape, denotations and
 * unknown fields stay. A map is returned unchanged. `type` itself where nothing changes. */
const Type *type_with_dtype(Arena *arena, const Type *type, Dtype dtype);
/* type_with_dtype of types that were seen before gives what it gave then; starts as {0}. A model
 * has few different types, and they need be in memory once. */
typedef struct TypeMemo {
    struct {
        const Type *from, *to;
        Dtype dtype;
    } seen[64];
} TypeMemo;
const Type *type_memo_with_dtype(TypeMemo *memo, Arena *arena, const Type *type, Dtype dtype);
/* Element dtype of the innermost tensor (through sequences and optionals); UNDEFINED for maps,
 * opaque types, NULL. */
Dtype type_dtype(const Type *type);
/* True where the dimension has a name, which stands for one size wherever the model has it. "?" is
 * none: Paddle2ONNX writes it for every open size. */
bool dim_is_named(const Dim *dim);
/* True where both are the same size for sure: known, or by their name. */
bool dim_same(const Dim *a, const Dim *b);
/* True where no tensor has both shapes: they are of another rank, or of another size along an axis that
 * both know. */
bool shapes_differ(const Type *a, const Type *b);
/* The type of a value, of kind NONE where nothing is known of it, as of a custom operator's output;
 * never NULL. Passes and commands ask value_type(v)->kind and the like, never v->type->kind. NULL
 * is a value of which nothing is known. */
const Type *value_type(const Value *value);
/* The value's type where it is a tensor of known rank, else NULL. */
const Type *value_shaped_type(const Value *value);
/* Same kinds, nesting and dtypes, whatever the shapes. */
bool type_same_dtypes(const Type *a, const Type *b);

/* One ValueInfoProto, less its name: what a file declares of an input, output or inner value. */
typedef struct ValueDecl {
    const Type *type; /* NULL where absent */
    Sym doc;
    KeyValue *metadata;
    Bytes rest;
} ValueDecl;

/* ---- values and uses ------------------------------------------------------------------------- */

typedef struct Use {
    Value *value;   /* what is read; NULL: an omitted input */
    Node *node;     /* the reader, or NULL for a graph output; use_graph knows its graph */
    uint32_t index; /* input index of node, or output index of graph */
    uint32_t id;    /* < model->use_count; dense, for side tables of passes: a node's inputs have
                        numbers in a row */
    struct Use *prev, *next; /* among the value's uses */
} Use;

typedef struct SparseTensor {
    Tensor *values, *indices; /* NULL where absent; values->name names an initializer */
    uint32_t rank;
    const int64_t *dims;
    Bytes rest;
} SparseTensor;

struct Value {
    Sym name;    /* unique among what its graph defines; never NULL, empty only in invalid models */
    uint32_t id; /* < model->value_count; dense, for side tables of passes */
    uint32_t output_index; /* of the producer's outputs */
    Graph *graph;          /* where it is defined */
    Node *producer;        /* NULL for inputs, initializers and undefined names */
    Use *uses;             /* in no promised order: sort by node where it matters */
    uint32_t use_count;
    bool referenced; /* named by a binding or a quantization annotation: must not disappear */
    bool trained;    /* an initializer that a training gives other numbers: no constant */
    bool lost_init, lost_info; /* may lie in a list that it is no more of, until graph_sweep */
    const Type *type;   /* what is known: declared by the file, then made exact by infer-dtypes and
                         refined by infer-shapes; NULL where unknown */
    const Tensor *init; /* an initializer's data (an input may have one too: a default) */
    const SparseTensor *sparse_init;
    ValueDecl *input; /* the graph-input declaration, NULL where it is not an input */
    ValueDecl *info;  /* the value_info entry, NULL where there is none */
};

/* A name in the file that refers to a value without reading it. Follows the value if renamed. */
typedef struct NameRef {
    Sym name;     /* as in the file; NULL where absent */
    Value *value; /* NULL where no such value exists */
    bool operand; /* a device configuration's: it names an operand of its node, follows that to
                     another value, and keeps none alive */
} NameRef;

/* ---- attributes ------------------------------------------------------------------------------ */

/* AttributeProto.AttributeType's numbers. */
typedef enum AttrType {
    ATTR_UNDEFINED = 0,
    ATTR_FLOAT = 1,
    ATTR_INT = 2,
    ATTR_STRING = 3,
    ATTR_TENSOR = 4,
    ATTR_GRAPH = 5,
    ATTR_FLOATS = 6,
    ATTR_INTS = 7,
    ATTR_STRINGS = 8,
    ATTR_TENSORS = 9,
    ATTR_GRAPHS = 10,
    ATTR_SPARSE_TENSOR = 11,
    ATTR_SPARSE_TENSORS = 12,
    ATTR_TYPE = 13,
    ATTR_TYPES = 14,
} AttrType;

struct Attr {
    Attr *next;
    Sym name, ref, doc; /* ref: ref_attr_name, in a function body */
    AttrType type;      /* declared, or (has_type false) told from the field that is filled */
    bool has_type;      /* the type field is present on the wire */
    bool has_value;     /* scalars: the field is present */
    uint32_t count;     /* lists: number of items */
    union {
        float f;
        int64_t i;
        Bytes s;
        const Tensor *t;
        Graph *g;
        const SparseTensor *sparse;
        const Type *tp;
        const float *floats;
        const int64_t *ints;
        const Bytes *strings;
        const Tensor *const *tensors;
        Graph *const *graphs;
        const SparseTensor *const *sparses;
        const Type *const *types;
    } v;
    Attr *also; /* further filled value fields of the same AttributeProto, beside the one its type
                   selects: only malformed files have them, and they are kept */
    Bytes rest;
};

/* ---- nodes ----------------------------------------------------------------------------------- */

/* NodeDeviceConfigurationProto: the tensor names are modeled, the remainder kept. */
typedef struct ShardingSpec {
    NameRef tensor;
    Bytes rest;
} ShardingSpec;

typedef struct DeviceConfig {
    ShardingSpec *specs; /* [spec_count] */
    uint32_t spec_count;
    Bytes rest;
} DeviceConfig;

typedef enum NoteKind {
    NOTE_NONE,
    NOTE_LOW,       /* it runs in 16 bit */
    NOTE_NO_FLOAT,  /* it holds no float32 */
    NOTE_CONSTANT,  /* what its readers read decides */
    NOTE_POLICY,    /* the policy's class for it, or the operator's nature */
    NOTE_EXCLUDED,  /* the user keeps it in fp32 */
    NOTE_ILLEGAL,   /* its definition has no 16-bit form at this opset */
    NOTE_VALUE,     /* a constant it reads does not fit */
    NOTE_PRECISE,   /* an angle, a coordinate, an index or a residual stream, which 16 bits are too
                       few for */
    NOTE_UNKNOWN,   /* a type is unknown */
    NOTE_FIXED,     /* its float operands have a type that nothing changes */
    NOTE_FOLLOWS,   /* what it follows, `subject`, is fp32 */
    NOTE_READS,     /* it is 16 bit only where all operands are, and `subject` is fp32 */
    NOTE_TIED,      /* one decision with node `subject`, which stays fp32 for `reason` */
    NOTE_MOVED,     /* a cast went past it, where it converts less */
    NOTE_QUANTIZED, /* it computes with quantized values or weights, as `reason` says */
    NOTE_CHEAPER,   /* in 16 bit it would cost `cost` bytes more */
} NoteKind;

/* Why a node runs in the precision it does: filled by insert-casts, shown by reports
 * (passes/placement/node_note.h has the words). */
typedef struct NodeNote {
    Dtype dtype; /* precision it was given: DTYPE_FLOAT, FLOAT16, BFLOAT16 */
    NoteKind kind;
    const char *label;   /* of a node without a name: node_label before outputs were renamed, which
                           is what its author calls it. NULL: node_label says it still */
    const char *subject; /* of a TIED note, a node's label; of FOLLOWS and READS, a value's name */
    const char *reason; /* one phrase, static or in the model's arena; NULL where `kind` says all */
    int64_t cost;
    bool settled; /* by its class, an exclusion, a law or the file itself: no pass may change it */
} NodeNote;

/* What few nodes have. */
typedef struct NodeExtra {
    Sym overload, doc;
    DeviceConfig *devices; /* [device_count] */
    uint32_t device_count;
    Bytes rest;
} NodeExtra;

struct Node {
    Graph *graph;
    Node *prev, *next; /* in the graph's order */
    uint32_t id;       /* < model->node_count; dense, for side tables of passes */
    uint32_t input_count, output_count;
    bool shares_lists; /* attrs and metadata are another node's too: attr.c copies, then writes */
    uint8_t input_room,
        output_room; /* 2 to that is what the arrays hold; 0: the counts, they never grew */
    Sym name;        /* often absent: node_label gives something to call it by */
    Sym op_type, domain;
    Use *inputs;     /* [input_count]; inputs[i].value is NULL where omitted */
    Value **outputs; /* [output_count]; NULL where omitted */
    Attr *attrs;
    KeyValue *metadata;
    const NodeNote *note;   /* NULL until decided */
    const NodeExtra *extra; /* NULL mostly: ask node_extra */
};

/* The next node of the graph. Nodes were mostly made in their order and lie side by side, so the
 * one that is fetched ahead here is mostly the fourth from now. */
static inline Node *node_after(const Node *node) {
    enum { AHEAD = 4 * sizeof(Node), LINE = 64 };
    __builtin_prefetch((const void *)((uintptr_t)node + AHEAD));
    __builtin_prefetch((const void *)((uintptr_t)node + AHEAD + LINE));
    return node->next;
}

/* What there is beyond a node's own fields. Never NULL. */
const NodeExtra *node_extra(const Node *node);
/* Replaces all of that; while a model is read. */
void node_set_extra(Node *node, NodeExtra extra);

/* ---- graphs ---------------------------------------------------------------------------------- */

typedef struct GraphOutput {
    Use use;         /* use.value is never NULL */
    ValueDecl *decl; /* what the file declares; never NULL */
    Graph *graph;
} GraphOutput;

/* The reader's graph. The Use of a graph output is the first member of its GraphOutput. */
static inline Graph *use_graph(const Use *use) {
    return use->node ? use->node->graph : ((const GraphOutput *)(const void *)use)->graph;
}

typedef struct QuantAnnotation {
    NameRef tensor;
    uint32_t param_count;
    Sym *param_keys;    /* [param_count], e.g. SCALE_TENSOR */
    NameRef *params;    /* [param_count] */
    Bytes *param_rests; /* [param_count] */
    Bytes rest;
} QuantAnnotation;

typedef struct OpsetImport {
    Sym domain; /* NULL where absent: the default domain, as "" is */
    int64_t version;
    bool has_version;
    Bytes rest;
} OpsetImport;

/* Most imports of a model or function: they are looked through for every node, and real models have
 * a handful. Readers refuse more. */
enum { OPSET_IMPORTS_MAX = 1000 };

typedef VEC(OpsetImport) OpsetImports;

/* Most graphs around a graph: files nest three messages for each, and protobuf's readers take a hundred. What
 * a graph holds takes five more. Readers, the check and writers refuse more in the same words. */
enum { GRAPH_NESTING_MAX = 31 };

struct Graph {
    Model *model;
    uint32_t id;          /* < model->graph_count; dense, for side tables of passes */
    Graph *parent;        /* whose values it may capture; NULL: the main graph, functions' bodies */
    Node *owner;          /* the node that holds it as an attribute; NULL otherwise */
    Function *function;   /* the function it is the body of, or NULL (also in nested graphs) */
    OpsetImports *opsets; /* of the model, or of the function it lies in */
    Sym name, doc;
    VEC(Value *) inputs;
    VEC(GraphOutput *) outputs; /* each allocated alone, so that its Use stays in place */
    VEC(Value *) initializers;  /* values with init, in file order */
    VEC(Value *) sparse_initializers;
    VEC(Value *) infos; /* values with info, in file order; also of what is nowhere (mentions.h) */
    bool unswept, dropped;  /* values without info, or init, are among them: graph_sweep */
    VEC(Value *) undefined; /* names that are read but defined nowhere in scope */
    VEC(QuantAnnotation) annotations;
    Node *first, *last;
    uint32_t node_count;
    KeyValue *metadata;
    Bytes rest;
};

struct Function {
    Sym name, domain, overload, doc; /* the first three stay as they were when it was added */
    uint32_t index;                  /* in model->functions */
    Graph *body;            /* its inputs have declarations without type; its name is absent */
    VEC(Sym) attributes;    /* parameters without default */
    Attr *attribute_protos; /* parameters with default */
    OpsetImports opsets;
    KeyValue *metadata;
    Bytes rest;
};

typedef struct TrainingBinding {
    NameRef key, value;
    Bytes rest;
} TrainingBinding;

typedef struct TrainingInfo {
    Graph *initialization, *algorithm; /* NULL where absent; their parent is the main graph */
    VEC(TrainingBinding) initialization_bindings;
    VEC(TrainingBinding) update_bindings;
    Bytes rest;
} TrainingInfo;

typedef VEC(Graph *) GraphList;

/* The graphs that model_graphs found, and what there was then: they are the same until something changes. */
typedef struct GraphsFound {
    GraphList list;
    uint64_t edits;
    uint32_t graph_count;
    size_t function_count, training_count;
} GraphsFound;

struct Model {
    Arena arena; /* owns everything below */
    Arena parts; /* owns what the pools have */
    struct {
        ArenaPool values, nodes, uses, outputs; /* uses and outputs: the arrays of nodes */
    } pools;
    SymTable syms;
    uint32_t value_count, node_count, use_count, graph_count; /* ids given out so far */
    uint64_t edits;                                           /* changes made since it was read */
    bool batch;    /* removals are between model_batch_removals and model_sweep */
    bool unswept;  /* graphs may be */
    bool mentions; /* there may be value_info entries of no value of their graph: mentions.h */
    const Source *source;           /* the file it was read from; NULL where made or read as text */
    VEC(const Source *) data_files; /* that its external data lie in */
    int64_t ir_version;
    bool has_ir_version;
    int64_t model_version;
    bool has_model_version;
    OpsetImports opsets;
    Sym producer_name, producer_version, domain, doc;
    Graph *graph;              /* never NULL */
    GraphsFound *found;        /* model_graphs', also of a const Model */
    VEC(Function *) functions; /* grown by model_add_function alone */
    Function **function_slots; /* by what calls name them; open addressing, a power of two */
    size_t function_capacity;
    bool shadowing; /* a function is of ONNX's own domain */
    VEC(TrainingInfo *) training;
    KeyValue *metadata;
    /* Operators of the user's own, so that node_schema finds them; nothing a file says. */
    const struct OpSchema *const *declared_ops; /* [declared_op_count] */
    size_t declared_op_count;
    Bytes rest;
};

/* ---- making and freeing ---------------------------------------------------------------------- */

/* An empty model with an empty main graph, freed with model_free. Allocation goes to `trap`. */
Model *model_new(MemTrap *trap);
void model_free(Model *model); /* NULL is fine */

/* Lets go of all nodes and values: graphs are empty then, and there are no functions. Tensors, attributes and
 * sources stay, for who has taken what is to be read of them. */
void model_empty(Model *model);

/* The version of `domain` imported by these opsets ("" and "ai.onnx" are one, of which "" counts first); the
 * last where there are several, 0 where none is. */
int64_t opset_version(const OpsetImports *opsets, Sym domain);
/* Adds or raises the import of a domain. Counts as an edit. */
void model_import_opset(Model *model, OpsetImports *opsets, Sym domain, int64_t version);
/* Drops every import of a domain. */
void model_drop_import(Model *model, OpsetImports *opsets, Sym domain);

/* True where domain is the default one: absent, "" or "ai.onnx". */
bool domain_is_default(Sym domain);

/* Appends a function, whose name, domain and overload are set. No edit: models are read with
 * theirs. Of functions that are called alike, the first is the one that is called. */
void model_add_function(Model *model, Function *function);

Graph *graph_new(Model *model, Graph *parent);

/* False, with an error that names the outermost node that the graph lies in, where more than
 * GRAPH_NESTING_MAX graphs are around it: that node is found in the file, and holds all of them. */
bool graph_check_nesting(const Graph *graph, Err *err);
/* The same of all graphs of a model, as whoever writes it will ask. */
bool model_check_nesting(const Model *model, Arena *scratch, Err *err);
/* That error, of a node of this label and operator; "" where they are not known. Returns false. */
bool graph_nesting_error(Err *err, const char *label, const char *op_type);

/* A new value without producer. name must not be in use in the graph: sym_fresh gives one. */
Value *value_new(Graph *graph, Sym name);

/* A new node, linked before `before`, or last where NULL; inputs omitted, outputs NULL. */
Node *node_new(Graph *graph, Node *before, Sym op_type, Sym domain);

/* Sets the number of inputs or outputs; new ones are omitted, dropped ones unlinked. */
void node_resize_inputs(Node *node, uint32_t count);
void node_resize_outputs(Node *node, uint32_t count);

/* Makes value (NULL: omitted) input / output i. A value has one producer. */
void node_set_input(Node *node, uint32_t i, Value *value);
void node_set_output(Node *node, uint32_t i, Value *value);

/* ---- edits ----------------------------------------------------------------------------------- */

/* Points one use at another value (NULL only for node inputs). Device configurations of the node
 * that name the operand name the new value. */
void use_set(Use *use, Value *value);

/* Points every use of `from` at `to`. References by name (NameRef) stay with `from`, but for those
 * of device configurations, which follow their node's operand. */
void value_replace_uses(Value *from, Value *to);

/* Renames a value; name must be fresh in its graph. */
void value_rename(Value *value, Sym name);

/* Exchanges the names of two values of one graph. */
void value_swap_names(Value *a, Value *b);

/* Sets what is known of the type. No edit: declarations (input, info, output) keep what they
 * say. */
void value_set_type(Value *value, const Type *type);

/* Brings the value_info entry's dtypes in line with the known type, keeping the declared shape
 * where it has one. Nothing happens where there is no entry, no type is known, or they agree. */
void value_sync_info(Value *value);

/* Changes the declared dtype of a graph input or output. The value's own type is not touched. */
void value_declare_input(Value *value, Dtype dtype);
void graph_declare_output(Graph *graph, uint32_t index, Dtype dtype);

/* Changes the whole type that a declaration gives. */
void decl_set_type(Model *model, ValueDecl *decl, const Type *type);

/* Adds or replaces the tensor of an initializer; NULL makes it none (and unlists it). */
void value_set_init(Value *value, const Tensor *tensor);

/* Adds a value_info entry for value, or removes it. */
void value_add_info(Value *value);
void value_remove_info(Value *value);

/* Unlinks a node, its uses and its subgraphs' uses of outer values; its outputs must be unused and
 * become undefined nowhere: they are dropped with their value_info entries. */
void node_remove(Node *node);

/* The same for many nodes in time linear in their number: value_info entries that are no longer any
 * stay in their graph's list until graph_sweep, which must come before anything reads it. */
void node_remove_unswept(Node *node);
void graph_sweep(Graph *graph);

/* From here to model_sweep every removal is such a one, of initializers, too: they stay in their graph's
 * list, without init. It comes at the end of a pass at the latest. */
void model_batch_removals(Model *model);
void model_sweep(Model *model, Arena *scratch);

/* Moves a node within its graph, before `before` (last where NULL). */
void node_move_before(Node *node, Node *before);

/* Moves all nodes, initializers and value_info entries of a graph that `before`, or a node around it,
 * holds to the graph of `before`, the nodes in their order before it. The graph has no inputs; its
 * outputs stay, and read what they did. Names must be in use nowhere else in that graph. */
void graph_move_out(Graph *graph, Node *before);

/* Drops an unused initializer and, unless it is also an input, its value. */
void graph_remove_initializer(Value *value);
/* The same for many of one graph, in time linear in its lists. */
void graph_remove_initializers(Graph *graph, Value *const *values, size_t count);

/* Adds a graph output that reads value. */
GraphOutput *graph_add_output(Graph *graph, Value *value, ValueDecl *decl);

/* Takes all graph outputs away; what they read stays. */
void graph_clear_outputs(Graph *graph);

/* Notes an edit made to a declaration or metadata that no function above covers. */
static inline void model_touch(Model *model) {
    model->edits++;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* The attribute of that name, or NULL. */
Attr *node_attr(const Node *node, const char *name);

/* What an attribute holds, where it is of that kind. NULL, false or no items where it is of another
 * kind, holds nothing, stands for a function's parameter, or is NULL itself: never another member
 * of the union. Passes and commands read attributes by these alone
 * (tools/suites/check_includes.py), but for what reads, writes, prints and compares whole
 * attributes of any kind. model_verify has seen before a pass runs that tensors, graphs and types
 * are there. A number or text that is not filled is 0 or empty, as the format has it. */
bool attr_int(const Attr *attr, int64_t *number);
bool attr_float(const Attr *attr, float *number);
bool attr_string(const Attr *attr, Bytes *text);
const Tensor *attr_tensor(const Attr *attr);
Graph *attr_graph(const Attr *attr);
const SparseTensor *attr_sparse(const Attr *attr);
const Type *attr_type(const Attr *attr);
/* Lists, with their length in *count. */
const int64_t *attr_ints(const Attr *attr, uint32_t *count);
const float *attr_floats(const Attr *attr, uint32_t *count);
const Bytes *attr_strings(const Attr *attr, uint32_t *count);
const Tensor *const *attr_tensors(const Attr *attr, uint32_t *count);
Graph *const *attr_graphs(const Attr *attr, uint32_t *count);
const SparseTensor *const *attr_sparses(const Attr *attr, uint32_t *count);
/* True of a STRING that is `text`. */
bool attr_is_text(const Attr *attr, const char *text);
/* True of two STRINGs of the same bytes. */
bool attr_same_text(const Attr *a, const Attr *b);
/* The graphs that it holds, one or a list. */
Graph *const *attr_held_graphs(const Attr *attr, uint32_t *count);

/* Its integer, or `otherwise` where absent, not an INT, or a reference. */
int64_t node_attr_int(const Node *node, const char *name, int64_t otherwise);
/* Adds or replaces. */
void node_set_attr_int(Node *node, const char *name, int64_t value);
void node_set_attr_string(Node *node, const char *name, const char *value);
void node_set_attr_tensor(Node *node, const char *name, const Tensor *tensor);
void node_set_attr_type(Node *node, const char *name, const Type *type);
void node_set_attr_float(Node *node, const char *name, float value);
/* Lists are copied. */
void node_set_attr_ints(Node *node, const char *name, const int64_t *values, uint32_t count);
void node_set_attr_floats(Node *node, const char *name, const float *values, uint32_t count);
void node_set_attr_strings(Node *node, const char *name, const char *const *values, uint32_t count);
/* A graph whose owner is the node. What was there before must not hold one. */
void node_set_attr_graph(Node *node, const char *name, Graph *graph);
void node_remove_attr(Node *node, const char *name);
/* Gives an attribute another name, which the node must not have yet; its doc string stays. */
void node_rename_attr(Node *node, const char *name, const char *to);

/* Gives a node, new and without any, the attributes and metadata of `from`, in the same memory;
 * either gets copies of its own once it is changed. Neither may have subgraphs. */
void node_share_lists(Node *node, Node *from);

/* Appends metadata_props key = value to a node; the value of a key, or NULL. */
void node_add_metadata(Node *node, const char *key, const char *value);
Sym node_metadata(const Node *node, const char *key);
/* Drops every entry of that key. */
void node_remove_metadata(Node *node, const char *key);
/* Appends key = value to the metadata of a function of the model, or where NULL of the model itself.
 * The second takes such an entry away; false where there is none. */
void model_mark(Model *model, Function *function, const char *key, const char *value);
bool model_take_mark(Model *model, Function *function, const char *key, const char *value);
/* Gives a key its value, adding it where it is new. */
void node_set_metadata(Node *node, const char *key, const char *value);
/* The same for what declares an input, output or inner value. */
void decl_add_metadata(Model *model, ValueDecl *decl, const char *key, const char *value);

/* ---- walking --------------------------------------------------------------------------------- */

/* Every graph of the model, outer before inner: the main graph and its nested graphs in node order,
 * then each function's body, then training graphs. In `arena`. Nodes are looked through once per edit,
 * so attributes that hold graphs are changed by the functions above, or before anybody asks. */
GraphList model_graphs(const Model *model, Arena *arena);

typedef void (*GraphVisitor)(Graph *graph, void *data);
/* Calls visit for each graph held directly by the node's attributes. */
void node_each_graph(const Node *node, GraphVisitor visit, void *data);
/* Whether there is any. */
bool node_holds_graph(const Node *node);

/* True where `inner` is `outer` or lies inside it. */
bool graph_is_within(const Graph *inner, const Graph *outer);

/* The function a node calls (domain, op_type, overload), or NULL where it is an operator. Functions
 * shadow operators of the same name. O(1). */
Function *model_find_function(const Model *model, const Node *node);

/* ---- messages -------------------------------------------------------------------------------- */

/* What to call a node: its name, or its first output's before a pass renamed that. Never NULL. */
const char *node_label(const Node *node);

/* err_set, with the node's label, operator and graph path filled in. Returns false. */
bool node_error(const Node *node, Err *err, ErrCode code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What to call a graph: the names of the nodes around it with their attributes, and of its function; "" for the
 * main graph. A long path lacks what is in its middle. */
enum { GRAPH_PATH = sizeof((Err *)NULL)->graph };
void graph_path(const Graph *graph, char path[GRAPH_PATH]);
/* Fills the graph's path of an error just set. */
void err_graph(Err *err, const Graph *graph);

#endif
