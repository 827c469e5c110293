// SPDX-License-Identifier: Apache-2.0
/* Numbers names from 0 on, in the order they are met. Hashes are the symbol table's, which are
 * keyed. */
#ifndef DEMI_NAME_MAP_H
#define DEMI_NAME_MAP_H

#include "sym.h"
#include "vec.h"

typedef struct NameMap {
    SymTable table;
    uint32_t *slots; /* by hash: 1 + number */
    size_t capacity;
} NameMap;

void name_map_init(NameMap *map, Arena *arena);
/* The name's number, a new one if need be. */
uint32_t name_map_add(NameMap *map, const char *name);
const char *name_map_name(const NameMap *map, uint32_t number);

#endif
