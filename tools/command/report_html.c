// SPDX-License-Identifier: Apache-2.0
/* A report as one HTML page that needs nothing beside it: tools/command/report_page.html, embedded
 * at build time, with the JSON of the report and the script of its drawing in the places of two
 * marks. The page's scripts do the rest. */
#include <string.h>

#include "report_out.h"

/* tools/command/report_page.html and tools/command/report_drawing.js (embed.cmake). */
extern const unsigned char report_page[], report_drawing[];
extern const size_t report_page_size, report_drawing_size;

typedef struct Page {
    OutFile *file;
    Err *err;
    size_t at; /* of report_page: what was written */
} Page;

/* In JSON '<' stands within strings only. Escaped, no name in a model can end the script
 * element. */
static bool write_escaped(void *user, const void *bytes, size_t size) {
    static const char escaped[] = "\\u003c";
    Page *page = user;
    const char *at = bytes, *end = at + size;
    while (at < end) {
        const char *next = memchr(at, '<', (size_t)(end - at));
        size_t plain = (size_t)((next ? next : end) - at);
        if (!outfile_write(page->file, at, plain, page->err)) return false;
        if (!next) break;
        if (!outfile_write(page->file, escaped, sizeof escaped - 1, page->err)) return false;
        at = next + 1;
    }
    return true;
}

/* Writes the page up to a mark, and moves behind it. */
static bool write_until(Page *page, const char *mark) {
    size_t length = strlen(mark), end = page->at;
    while (memcmp(report_page + end, mark, length) != 0) end++; /* it is there: cli_test */
    bool ok = outfile_write(page->file, report_page + page->at, end - page->at, page->err);
    page->at = end + length;
    return ok;
}

bool report_write_html(Arena *arena, const DemiReport *report, const ReportTitle *title,
                       OutFile *file, Err *err) {
    Page page = {.file = file, .err = err};
    JsonWriter *json = ARENA_NEW(arena, JsonWriter);
    if (!write_until(&page, "@REPORT@")) return false;
    json_start(json, write_escaped, &page);
    json_open(json, NULL, '{');
    report_write_fields(report, title, json);
    if (title->model) report_write_graph(report, title->model, arena, json);
    json_close(json, '}');
    return json_finish(json) && write_until(&page, "@DRAWING@") &&
           outfile_write(file, report_drawing, report_drawing_size, err) &&
           outfile_write(file, report_page + page.at, report_page_size - page.at, err);
}
