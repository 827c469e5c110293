// SPDX-License-Identifier: Apache-2.0
/* The importer's frame: opens the source, has the guard walk it, and reads the ModelProto. */
#include "onnx_import.h"

#include <string.h>

#include "import.h"
#include "value_names.h"
#include "wire_guard.h"
#include "work_progress.h"

enum {
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14,
    MODEL_TRAINING = 20,
    MODEL_FUNCTION = 25,
    MODEL_CONFIGURATION = 26,
};

/* ---- training -------------------------------------------------------------------------------- */

static Scope *queue_training_graph(Import *import, const Onnx__GraphProto *proto, Scope *main,
                                   Graph **graph) {
    if (!proto) return NULL;
    *graph = graph_new(import->model, import->model->graph);
    import_queue_graph(import, *graph, main, import_graph_record(import, proto));
    return import->graphs.items[import->graphs.count - 1].scope;
}

/* The entry's names, the key resolved in the algorithm or main graph, the value in the graph that
 * computes it. */
static TrainingBinding import_binding(Import *import, Onnx__StringStringEntryProto *entry,
                                      const Scope *keys, const Scope *values) {
    KeyValue *pair = import_key_value(import, entry);
    TrainingBinding binding = {
        .key.name = pair->key, .value.name = pair->value, .rest = pair->rest};
    scope_refer(keys, &binding.key);
    scope_refer(values, &binding.value);
    return binding;
}

static bool import_training(Import *import, ShadowPiece piece, Scope *main) {
    Model *model = import->model;
    TrainingInfo *info = ARENA_NEW(import->arena, TrainingInfo);
    Onnx__TrainingInfoProto *proto = (Onnx__TrainingInfoProto *)import_unpack(
        import, &onnx__training_info_proto__descriptor, piece);
    if (!proto) return false;
    Scope *init = queue_training_graph(import, proto->initialization, main, &info->initialization);
    Scope *algorithm = queue_training_graph(import, proto->algorithm, main, &info->algorithm);
    if (!import_graphs(import)) return false;
    /* Reading the graphs has used the unpacker again. */
    proto = (Onnx__TrainingInfoProto *)import_unpack(import, &onnx__training_info_proto__descriptor,
                                                     piece);
    if (!proto) return false;
    const Scope *keys = algorithm ? algorithm : main;
    for (size_t i = 0; i < proto->n_initialization_binding; i++)
        VEC_PUSH(import->arena, &info->initialization_bindings,
                 import_binding(import, proto->initialization_binding[i], keys, init));
    for (size_t i = 0; i < proto->n_update_binding; i++)
        VEC_PUSH(import->arena, &info->update_bindings,
                 import_binding(import, proto->update_binding[i], keys, algorithm));
    proto->initialization = proto->algorithm = NULL;
    proto->n_initialization_binding = proto->n_update_binding = 0;
    info->rest = import_rest(import, &proto->base);
    VEC_PUSH(import->arena, &model->training, info);
    return true;
}

/* ---- the model ------------------------------------------------------------------------------- */

static bool missing(const Import *import, const char *what) {
    err_set(import->err, ERR_MODEL, "not an ONNX model: %s is missing", what);
    err_hint(import->err, "the file may be truncated");
    return false;
}

/* Graph, functions and training, in the order that captures need. */
static bool read_graphs(Import *import, const ShadowRecord *record) {
    Model *model = import->model;
    const ShadowRecord *graph = NULL;
    for (size_t i = 0; i < record->pieces.count; i++)
        if (record->pieces.items[i].field == MODEL_GRAPH) graph = record->pieces.items[i].at.record;
    if (!graph) return missing(import, "graph");
    import_queue_graph(import, model->graph, NULL, graph);
    Scope *main = import->graphs.items[0].scope;
    if (!import_graphs(import)) return false;
    for (size_t i = 0; i < record->pieces.count; i++) {
        ShadowPiece piece = record->pieces.items[i];
        if (piece.field == MODEL_TRAINING && !import_training(import, piece, main)) return false;
        if (piece.field != MODEL_FUNCTION) continue;
        Function *function = import_function(import, piece.at.record);
        if (!function || !import_graphs(import)) return false;
        model_add_function(model, function);
    }
    return true;
}

static bool read_model_fields(Import *import, const ShadowRecord *record) {
    Model *model = import->model;
    for (size_t i = 0; i < record->pieces.count; i++)
        if (record->pieces.items[i].field == MODEL_CONFIGURATION)
            VEC_PUSH(&import->scratch, &import->unmodeled, record->pieces.items[i]);
    Onnx__ModelProto *proto =
        (Onnx__ModelProto *)import_remainder(import, &onnx__model_proto__descriptor, record);
    if (!proto) return false;
    if (!proto->has_ir_version) return missing(import, "ir_version");
    model->ir_version = proto->ir_version;
    model->has_ir_version = true;
    model->model_version = proto->model_version;
    model->has_model_version = proto->has_model_version;
    model->producer_name = import_sym(import, proto->has_producer_name, proto->producer_name);
    model->producer_version =
        import_sym(import, proto->has_producer_version, proto->producer_version);
    model->domain = import_sym(import, proto->has_domain, proto->domain);
    model->doc = import_sym(import, proto->has_doc_string, proto->doc_string);
    proto->has_ir_version = proto->has_model_version = proto->has_producer_name = 0;
    proto->has_producer_version = proto->has_domain = proto->has_doc_string = 0;
    model->rest = import_rest(import, &proto->base);
    return true;
}

bool import_model(Import *import) {
    const ShadowRecord *record = import->shadow.model;
    Model *model = import->model;
    if (!read_model_fields(import, record)) return false;
    if (!import_opsets(import, record, MODEL_OPSET, &model->opsets)) return false;
    if (!model->opsets.count) return missing(import, "opset_import");
    model->metadata = import_metadata(import, record, MODEL_METADATA);
    if (import->err->code != ERR_NONE || !read_graphs(import, record)) return false;
    model_refer_named(model, &import->scratch);
    return true;
}

/* ---- sources and errors ---------------------------------------------------------------------- */

/* The folder part of a path. */
static const char *folder_of(Arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return ".";
    return slash == path ? "/" : arena_copy(arena, path, (size_t)(slash - path));
}

static const Source *open_file(Import *import, const char *path) {
    Source *source = source_open(import->arena, path, WIRE_SIZE_MAX, import->err);
    if (source) source_read_ahead(source, import->arena);
    return source;
}

bool import_open(Import *import, const ImportFrom *from) {
    Arena *arena = import->arena;
    ExternalOptions external = {.from = import->options->data,
                                .folder = import->options->data_root,
                                .allow_hardlinks = import->options->allow_hardlinks};
    Model *model = import->model;
    if (from->path) {
        model->source = from->source ? from->source : open_file(import, from->path);
        if (from->written) {
            external.written = from->written->data_name;
            external.written_as = from->written->data_file;
        }
        if (!external.folder) {
            external.folder = folder_of(arena, from->path);
            external.model_path = arena_copy(arena, from->path, strlen(from->path));
        }
    } else {
        model->source =
            source_from_memory(arena, from->memory->bytes, from->memory->size, from->memory->name);
    }
    import->external = external_data_new(arena, &external);
    return model->source != NULL;
}

/* Nodes, weights, declarations: what the importer reads one by one. */
static uint64_t piece_count(const Shadow *shadow) {
    uint64_t count = 0;
    for (size_t i = 0; i < shadow->records.count; i++)
        count += shadow->records.items[i]->pieces.count;
    return count;
}

static bool import_read(Import *import, const ImportFrom *from) {
    if (!import_open(import, from)) return false;
    GuardInput input = {.source = import->model->source,
                        .root = &onnx__model_proto__descriptor,
                        .memory_budget = import->options->memory_budget};
    if (!wire_guard(&input, &import->scratch, &import->shadow, import->err)) return false;
    import_init_unpackers(import);
    import->progress =
        progress_begin("nodes and values", piece_count(&import->shadow), PROGRESS_STEPS);
    const bool ok = import_model(import);
    progress_end(import->progress);
    if (ok) {
        external_data_list(import->external, import->model);
        return true;
    }
    err_file(import->err, import->model->source->name);
    return false;
}

/* Everything that may run out of memory, behind the import's own trap. */
static bool import_trapped(Import *import, const ImportFrom *from) {
    if (setjmp(import->trap.env)) return err_out_of_memory(import->err);
    arena_init(&import->scratch, &import->trap);
    import->model = model_new(&import->trap);
    import->arena = &import->model->arena;
    return import_read(import, from);
}

static Model *import_from(const ImportFrom *from, const ImportOptions *options, MemTrap *trap,
                          Err *err) {
    static const ImportOptions none = {0};
    Err own = {.code = ERR_NONE}; /* the importer asks it whether something failed */
    Import import = {.options = options ? options : &none, .err = &own};
    bool read = import_trapped(&import, from);
    arena_free(&import.scratch);
    if (read) {
        import.model->edits = 0;
        import.model->arena.trap = trap;
        return import.model;
    }
    model_free(import.model);
    if (err && err->code == ERR_NONE) *err = own;
    return NULL;
}

Model *onnx_import_file(const char *path, const ImportOptions *options, MemTrap *trap, Err *err) {
    return import_from(&(ImportFrom){.path = path}, options, trap, err);
}

Model *onnx_import_memory(const ImportBytes *input, const ImportOptions *options, MemTrap *trap,
                          Err *err) {
    return import_from(&(ImportFrom){.memory = input}, options, trap, err);
}
