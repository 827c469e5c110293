// SPDX-License-Identifier: Apache-2.0
/* A report as one HTML page that needs nothing beside it: tools/command/report_page.html, embedded
 * at build time, with the JSON of the report and the script of its drawing in the places of two
 * marks. The page's scripts do the rest. */
#include "page_file.h"
#include "report_out.h"

/* tools/command/report_page.html and tools/command/report_drawing.js (embed.cmake). */
extern const unsigned char report_page[], report_drawing[];
extern const size_t report_page_size, report_drawing_size;

bool report_write_html(Arena *arena, const DemiReport *report, const ReportTitle *title,
                       OutFile *file, Err *err) {
    PageFile page = {file, err, report_page, report_page_size, 0};
    JsonWriter *json = ARENA_NEW(arena, JsonWriter);
    if (!page_begin(&page) || !page_until(&page, "@REPORT@")) return false;
    json_start(json, page_write_json, &page);
    json_open(json, NULL, '{');
    report_write_fields(report, title, json);
    if (title->model) report_write_graph(report, title->model, arena, json);
    json_close(json, '}');
    return json_finish(json) && page_scripts(&page) && page_until(&page, "@DRAWING@") &&
           outfile_write(file, report_drawing, report_drawing_size, err) && page_end(&page);
}
