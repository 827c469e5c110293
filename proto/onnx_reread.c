// SPDX-License-Identifier: Apache-2.0
/* Reading a written model back, in parts: the guard walks the file and gives the main graph away
 * piece by piece; each part becomes a small model of its own, which is compared with the graph it
 * was written from and freed. So a second model is never in memory, and what is in memory is in the
 * processor's caches. What is not of the main graph (functions, training, the model's own fields)
 * is read whole, with the last part. */
#include <setjmp.h>

#include "import.h"
#include "onnx_import.h"
#include "wire_guard.h"

typedef struct Reread {
    const Model *model;
    const WrittenFile *file;
    ImportFrom from;
    CompareOptions compare;
    GraphCursor cursor;
    Arena arena; /* the shadow */
    Shadow shadow;
    Import import; /* of the part at hand */
    MemTrap trap;
    Err *err;
} Reread;

static const ImportOptions no_options;

static void part_free(Reread *r) {
    arena_free(&r->import.scratch);
    model_free(r->import.model);
    r->import.model = NULL;
}

/* An empty model to read a part into. */
static bool part_begin(Reread *r, const Shadow *shadow) {
    Import *import = &r->import;
    *import = (Import){.options = &no_options, .err = r->err, .shadow = *shadow};
    arena_init(&import->scratch, &r->trap);
    import->model = model_new(&r->trap);
    import->arena = &import->model->arena;
    import_init_unpackers(import);
    return import_open(import, &r->from);
}

static bool take_part(void *data, const Shadow *shadow, const ShadowRecord *graph) {
    Reread *r = data;
    Import *import = &r->import;
    const ShadowRecord part = {.pieces = graph->pieces};
    r->compare.compared = &r->cursor;
    bool same = part_begin(r, shadow);
    if (same) {
        import_queue_graph(import, import->model->graph, NULL, &part);
        same = import_graphs(import) &&
               graph_compare_part(r->model->graph, import->model->graph, &r->compare, r->err);
    }
    part_free(r);
    return same;
}

static bool reread(Reread *r) {
    Source *source = r->file->source;
    if (!source) source = source_open(&r->arena, r->file->path, WIRE_SIZE_MAX, r->err);
    if (!source) return false;
    source_read_ahead(source, &r->arena);
    r->from.source = source;
    /* Value infos without a name are kept as unknown fields, whose place can be told from the whole
     * graph only. */
    bool whole = r->model->graph->rest.size > 0;
    GuardInput input = {.source = source,
                        .root = &onnx__model_proto__descriptor,
                        .take = whole ? NULL : take_part,
                        .data = r};
    if (!wire_guard(&input, &r->arena, &r->shadow, r->err) || !part_begin(r, &r->shadow))
        return false;
    return import_model(&r->import) &&
           model_compare(r->model, r->import.model, &r->compare, r->err);
}

static bool reread_trapped(Reread *r) {
    if (setjmp(r->trap.env)) return err_out_of_memory(r->err);
    arena_init(&r->arena, &r->trap);
    return reread(r);
}

bool onnx_compare_file(const Model *model, const WrittenFile *file, const CompareOptions *options,
                       Err *err) {
    Err own = {.code = ERR_NONE}; /* the importer asks it whether something failed */
    Reread r = {
        .model = model, .file = file, .from = {.path = file->path, .written = file}, .err = &own};
    if (options) r.compare = *options;
    r.compare.compared = NULL;
    bool same = reread_trapped(&r);
    part_free(&r);
    arena_free(&r.arena);
    if (!same && err && err->code == ERR_NONE) *err = own;
    return same;
}
