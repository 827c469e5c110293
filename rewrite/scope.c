// SPDX-License-Identifier: Apache-2.0
/* Names in scope while a model is read; see scope.h. */
#include "scope.h"

#include <string.h>

Scope *scope_new(Arena *scratch, Graph *graph, const Scope *parent) {
    Scope *scope = ARENA_NEW(scratch, Scope);
    scope->graph = graph;
    scope->parent = parent;
    scope->direct = graph == graph->model->graph;
    return scope;
}

/* The slot that holds the name, or the free one where it belongs; the table is never full. */
static Value **scope_slot(const Scope *scope, Sym name) {
    if (scope->direct) return &scope->slots[name->number];
    size_t mask = scope->capacity - 1;
    for (size_t i = sym_hash(name) & mask;; i = (i + 1) & mask)
        if (!scope->slots[i] || scope->slots[i]->name == name) return &scope->slots[i];
}

Value *scope_find(const Scope *scope, Sym name) {
    if (scope->direct ? name->number >= scope->capacity : !scope->capacity) return NULL;
    return *scope_slot(scope, name);
}

/* capacity is more than before. */
static void slots_grow(Scope *scope, Arena *scratch, size_t capacity) {
    Scope old = *scope;
    scope->capacity = capacity;
    scope->slots = ARENA_ARRAY(scratch, Value *, capacity);
    if (old.direct && old.capacity)
        memcpy(scope->slots, old.slots, old.capacity * sizeof *old.slots);
    for (size_t i = 0; !old.direct && i < old.capacity; i++)
        if (old.slots[i]) *scope_slot(scope, old.slots[i]->name) = old.slots[i];
    arena_release(scratch, old.slots, old.capacity * sizeof *old.slots);
}

void scope_reserve(Scope *scope, Arena *scratch, size_t count) {
    if (count > SIZE_MAX / 4 - scope->count) arena_exhausted(scratch);
    size_t capacity = scope->capacity ? scope->capacity : 16;
    if (scope->direct) { /* names are about to be interned */
        size_t room = scope->graph->model->syms.room;
        while (capacity < room) capacity *= 2;
    } else {
        while (capacity / 2 < scope->count + count) capacity *= 2;
    }
    if (capacity > scope->capacity) slots_grow(scope, scratch, capacity);
}

static bool has_room(const Scope *scope, Sym name) {
    return scope->direct ? name->number < scope->capacity : scope->count * 2 < scope->capacity;
}

Value *scope_declare(Scope *scope, Arena *scratch, Sym name) {
    if (!has_room(scope, name)) scope_reserve(scope, scratch, 1);
    Value **slot = scope_slot(scope, name);
    if (*slot) return *slot;
    scope->count++;
    return *slot = value_new(scope->graph, name);
}

bool value_is_defined(const Value *value) {
    return value->producer || value->input || value->init || value->sparse_init;
}

Value *scope_lookup(const Scope *scope, Sym name) {
    for (; scope; scope = scope->parent) {
        Value *value = scope_find(scope, name);
        if (value && value_is_defined(value)) return value;
    }
    return NULL;
}

Value *scope_resolve(Scope *scope, Arena *scratch, Sym name) {
    Value *value = scope_lookup(scope, name);
    if (value) return value;
    value = scope_declare(scope, scratch, name); /* a stale value_info may have named it before */
    if (value->use_count == 0)
        VEC_PUSH(&scope->graph->model->arena, &scope->graph->undefined, value);
    return value;
}

void scope_refer(const Scope *scope, NameRef *reference) {
    if (!reference->name || !scope) return;
    reference->value = scope_lookup(scope, reference->name);
    if (reference->value && !reference->operand) reference->value->referenced = true;
}
