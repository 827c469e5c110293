// SPDX-License-Identifier: Apache-2.0
/* AIMET's result lists: what each candidate does to each group alone, and the places of that list that
 * were tried. A group is a list of ["activation" or "weight", name], a candidate a text that Python
 * printed. */
#include <stdio.h>

#include "search_out.h"

static void write_group(const DemiSearch *search, size_t number, JsonWriter *json) {
    const DemiSearchGroup *group = demi_search_group(search, number);
    json_open(json, NULL, '[');
    for (size_t i = 0; i < group->values + group->weights; i++) {
        const bool weight = i >= group->values;
        json_open(json, NULL, '[');
        json_text(json, NULL, weight ? "weight" : "activation");
        json_text(json, NULL,
                  weight ? group->weight_names[i - group->values] : group->value_names[i]);
        json_close(json, ']');
    }
    json_close(json, ']');
}

static const char *kind_of(Dtype dtype) {
    return dtype_is_float(dtype) ? "<QuantizationDataType.float: 2>"
                                 : "<QuantizationDataType.int: 1>";
}

static void write_candidate(const DemiSearch *search, size_t number, JsonWriter *json) {
    const Dtype activations = search_type(search, number, false);
    const Dtype weights = search_type(search, number, true);
    char text[128];
    snprintf(text, sizeof text, "((%u, %s), (%u, %s))", dtype_bits(activations),
             kind_of(activations), dtype_bits(weights), kind_of(weights));
    json_text(json, NULL, text);
}

void search_write_entries(const SearchTitle *title, JsonWriter *json) {
    json_open(json, NULL, '[');
    for (size_t i = 0; i < demi_search_entry_count(title->search); i++) {
        const DemiSearchEntry *entry = demi_search_entry(title->search, i);
        json_open(json, NULL, '[');
        write_group(title->search, entry->group, json);
        write_candidate(title->search, entry->candidate, json);
        json_number(json, NULL, entry->score);
        json_number(json, NULL, entry->reduction);
        json_close(json, ']');
    }
    json_close(json, ']');
}

void search_write_places(const SearchTitle *title, JsonWriter *json) {
    json_open(json, NULL, '[');
    for (size_t i = 0; i < demi_search_place_count(title->search); i++) {
        const DemiSearchPlace *place = demi_search_place(title->search, i);
        json_open(json, NULL, '[');
        json_number(json, NULL, place->relative);
        json_number(json, NULL, place->score);
        write_group(title->search, place->group, json);
        write_candidate(title->search, place->candidate, json);
        json_close(json, ']');
    }
    json_close(json, ']');
}
