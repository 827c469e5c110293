// SPDX-License-Identifier: Apache-2.0
/* See name_map.h: the symbol table keeps names in the order they came, this finds a name's place.
 */
#include "name_map.h"

void name_map_init(NameMap *map, Arena *arena) {
    *map = (NameMap){.slots = NULL};
    sym_table_init(&map->table, arena);
}

static uint32_t *slot_of(const NameMap *map, Sym sym) {
    size_t at = sym->hash & (map->capacity - 1);
    while (map->slots[at] && map->table.names[map->slots[at] - 1] != sym)
        at = (at + 1) & (map->capacity - 1);
    return &map->slots[at];
}

static void grow(NameMap *map) {
    map->capacity = map->capacity ? 2 * map->capacity : 64;
    map->slots = ARENA_ARRAY(map->table.arena, uint32_t, map->capacity);
    for (size_t i = 0; i < map->table.count; i++)
        *slot_of(map, map->table.names[i]) = (uint32_t)i + 1;
}

uint32_t name_map_add(NameMap *map, const char *name) {
    Sym sym = sym_intern_cstr(&map->table, name);
    if (2 * map->table.count >= map->capacity) grow(map);
    uint32_t *slot = slot_of(map, sym);
    if (!*slot) *slot = (uint32_t)map->table.count; /* it was just added */
    return *slot - 1;
}

const char *name_map_name(const NameMap *map, uint32_t number) {
    return map->table.names[number]->text;
}
