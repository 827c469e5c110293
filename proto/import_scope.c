// SPDX-License-Identifier: Apache-2.0
/* Names: each graph has a table of its own values; captures look further out. Files need not be
 * sorted, so a name is resolved only when all definitions of its graph are known. */
#include "import.h"

Scope *scope_new(Import *import, Graph *graph, Scope *parent) {
    Scope *scope = ARENA_NEW(&import->scratch, Scope);
    scope->graph = graph;
    scope->parent = parent;
    return scope;
}

bool value_is_defined(const Value *value) {
    return value->producer || value->input || value->init || value->sparse_init;
}

static Value **slot_of(const Scope *scope, Sym name) {
    size_t mask = scope->capacity - 1;
    for (size_t i = name->hash & mask;; i = (i + 1) & mask)
        if (!scope->slots[i] || scope->slots[i]->name == name) return &scope->slots[i];
}

static void scope_grow(Import *import, Scope *scope) {
    Scope old = *scope;
    scope->capacity = old.capacity ? old.capacity * 2 : 16;
    scope->slots = ARENA_ARRAY(&import->scratch, Value *, scope->capacity);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i]) *slot_of(scope, old.slots[i]->name) = old.slots[i];
}

Value *scope_find(const Scope *scope, Sym name) {
    return scope->capacity ? *slot_of(scope, name) : NULL;
}

Value *scope_add(Import *import, Scope *scope, Sym name) {
    if (scope->count * 2 >= scope->capacity) scope_grow(import, scope);
    scope->count++;
    return *slot_of(scope, name) = value_new(scope->graph, name);
}

Value *scope_lookup(const Scope *scope, Sym name) {
    for (; scope; scope = scope->parent) {
        Value *value = scope_find(scope, name);
        if (value && value_is_defined(value)) return value;
    }
    return NULL;
}

Value *scope_resolve(Import *import, Scope *scope, Sym name) {
    Value *value = scope_lookup(scope, name);
    if (value) return value;
    value = scope_find(scope, name); /* named by a stale value_info, or read before */
    if (!value) value = scope_add(import, scope, name);
    if (!value->use_count) VEC_PUSH(import->arena, &scope->graph->undefined, value);
    return value;
}

void scope_refer(const Scope *scope, NameRef *reference) {
    if (!reference->name || !scope) return;
    reference->value = scope_lookup(scope, reference->name);
    if (reference->value) reference->value->referenced = true;
}
