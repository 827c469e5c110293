// SPDX-License-Identifier: Apache-2.0
/* What the parts of the importer share: its state, names in scope, and the conversion of messages.
 *
 * Unpacked messages live in the Unpacker until the next piece; everything kept is copied into the
 * model's arena. Each function that takes a message clears the fields that it models, then keeps
 * what remains by import_rest, so that a field nobody thought of still survives.
 */
#ifndef DEMI_IMPORT_H
#define DEMI_IMPORT_H

#include "external_data.h"
#include "graph.h"
#include "onnx.pb-c.h"
#include "onnx_import.h"
#include "scope.h"
#include "shadow.h"
#include "unpack.h"

/* A graph that was made and is still to be filled. */
typedef struct PendingGraph {
    Scope *scope;
    const ShadowRecord *record;
} PendingGraph;

/* A node's input whose definition was not seen yet. */
typedef struct PendingUse {
    Node *node;
    uint32_t index;
    Sym name;
} PendingUse;

/* A node that is about to be read. */
typedef struct NodeAhead {
    Unpacker *unpacker;
    Onnx__NodeProto *proto;
    VEC(SymKey) names; /* its own, inputs, outputs */
} NodeAhead;

typedef struct Import {
    Model *model;
    Arena *arena;  /* the model's */
    Arena scratch; /* shadow, scopes: freed with the import */
    Shadow shadow;
    Unpacker unpacker, other_unpacker;
    NodeAhead nodes[2]; /* by turns: one is read while the names of the next one are fetched */
    const ImportOptions *options;
    ExternalData *external;
    Err *err;
    MemTrap trap;
    VEC(PendingGraph) graphs; /* filled in this order */
    size_t graphs_done;
    VEC(PendingUse) uses;       /* of the graph being filled */
    VEC(NameRef *) references;  /* of the graph being filled */
    VEC(ShadowPiece) unmodeled; /* pieces of the record being read that go to its rest */
    unsigned progress;          /* progress_begin's, counted in pieces */
    uint64_t pieces_read;
} Import;

/* What a model is read from: path or memory. */
typedef struct ImportFrom {
    const char *path;
    const Source *source;       /* of path, where it is open already; borrowed. Else NULL */
    const WrittenFile *written; /* of path, where it was just written. Else NULL */
    const ImportBytes *memory;
} ImportFrom;

/* ---- onnx_import.c --------------------------------------------------------------------------- */

/* Opens the source, and the folder of its external data. */
bool import_open(Import *import, const ImportFrom *from);
/* Reads the ModelProto in import->shadow. */
bool import_model(Import *import);

/* ---- import_common.c: strings, lists, what remains ------------------------------------------- */

/* What unpacking needs, from import->scratch. */
void import_init_unpackers(Import *import);
/* The message in a piece; NULL (err set) where protobuf-c refuses it. Earlier ones are forgotten.
 */
ProtobufCMessage *import_unpack(Import *import, const ProtobufCMessageDescriptor *descriptor,
                                ShadowPiece piece);
ProtobufCMessage *import_unpack_with(Import *import, Unpacker *unpacker,
                                     const ProtobufCMessageDescriptor *descriptor,
                                     ShadowPiece piece);
/* Everything of a record but its pieces, as one message, with the pieces listed in
 * import->unmodeled, which is emptied. */
ProtobufCMessage *import_remainder(Import *import, const ProtobufCMessageDescriptor *descriptor,
                                   const ShadowRecord *record);
/* What is left of a message, as wire bytes in the model's arena. */
Bytes import_rest(Import *import, ProtobufCMessage *message);
/* Interned; NULL where absent. */
Sym import_sym(Import *import, protobuf_c_boolean has, ProtobufCBinaryData data);
/* Interned; empty where absent. */
Sym import_name(Import *import, protobuf_c_boolean has, ProtobufCBinaryData data);
Bytes import_bytes(Import *import, ProtobufCBinaryData data);
/* One entry, and a whole list of unpacked ones. */
KeyValue *import_key_value(Import *import, Onnx__StringStringEntryProto *entry);
KeyValue *import_key_values(Import *import, size_t count, Onnx__StringStringEntryProto **entries);
/* The record that a GraphProto inside a piece stands for. */
const ShadowRecord *import_graph_record(Import *import, const Onnx__GraphProto *graph);

/* ---- import_type.c --------------------------------------------------------------------------- */

const Type *import_type(Import *import, Onnx__TypeProto *proto);
/* All of a ValueInfoProto but its name, which the caller took before. */
ValueDecl *import_decl(Import *import, Onnx__ValueInfoProto *proto);

/* ---- import_tensor.c: NULL (err set) where data is out of reach ------------------------------ */

Tensor *import_tensor(Import *import, Onnx__TensorProto *proto);
SparseTensor *import_sparse(Import *import, Onnx__SparseTensorProto *proto);

/* ---- import_node.c --------------------------------------------------------------------------- */

/* The attribute, its subgraphs queued with `scope` as parent; owner may be NULL. NULL on error. */
Attr *import_attr(Import *import, Onnx__AttributeProto *proto, Scope *scope, Node *owner);
/* Unpacks a node and begins to look its names up. */
bool import_node_ahead(Import *import, NodeAhead *ahead, ShadowPiece piece);
/* Appends the node to the graph; inputs not defined so far are left in import->uses. */
bool import_node(Import *import, const NodeAhead *ahead, Scope *scope);

/* ---- import_graph.c -------------------------------------------------------------------------- */

/* Makes a graph whose contents import_graphs will read. */
Graph *import_queue_graph(Import *import, Graph *graph, Scope *parent, const ShadowRecord *record);
/* Reads all graphs that are queued, and those in them. */
bool import_graphs(Import *import);
/* All metadata_props pieces of a record as one list. NULL also where one is refused: err says. */
KeyValue *import_metadata(Import *import, const ShadowRecord *record, uint32_t field);
/* All opset_import pieces of a record, appended. */
bool import_opsets(Import *import, const ShadowRecord *record, uint32_t field,
                   OpsetImports *opsets);
/* Reads a FunctionProto, its body's nested graphs queued. NULL on error. */
Function *import_function(Import *import, const ShadowRecord *record);

#endif
