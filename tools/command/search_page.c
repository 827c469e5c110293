// SPDX-License-Identifier: Apache-2.0
/* A search as one HTML page that needs nothing beside it: search_page.html with the drawings and the
 * result's JSON in the places of its marks. The page's script makes its tables. */
#include "page_file.h"
#include "search_out.h"

/* tools/command/search_page.html (embed.cmake). */
extern const unsigned char search_page[];
extern const size_t search_page_size;

bool search_write_page(const SearchTitle *title, Arena *arena, OutFile *file, Err *err) {
    PageFile page = {file, err, search_page, search_page_size, 0};
    JsonWriter *json = ARENA_NEW(arena, JsonWriter);
    if (!page_begin(&page) || !page_until(&page, "@FRONT@") ||
        !search_draw_front(title, page_write, &page) || !page_until(&page, "@GROUPS@") ||
        !search_draw_groups(title, page_write, &page) || !page_until(&page, "@RESULT@"))
        return false;
    json_start(json, page_write_json, &page);
    search_write_json(title, json);
    return json_finish(json) && page_scripts(&page) && page_end(&page);
}
