// SPDX-License-Identifier: Apache-2.0
/* Names in scope while a model is read; see scope.h. */
#include "scope.h"

Scope *scope_new(Arena *scratch, Graph *graph, const Scope *parent) {
    Scope *scope = ARENA_NEW(scratch, Scope);
    scope->graph = graph;
    scope->parent = parent;
    return scope;
}

/* The slot that holds the name, or the free one where it belongs; the table is never full. */
static Value **scope_slot(const Scope *scope, Sym name) {
    size_t mask = scope->capacity - 1;
    for (size_t i = sym_hash(name) & mask;; i = (i + 1) & mask)
        if (!scope->slots[i] || scope->slots[i]->name == name) return &scope->slots[i];
}

Value *scope_find(const Scope *scope, Sym name) {
    return scope->capacity ? *scope_slot(scope, name) : NULL;
}

void scope_reserve(Scope *scope, Arena *scratch, size_t count) {
    if (count > SIZE_MAX / 4 - scope->count) arena_exhausted(scratch);
    Scope old = *scope;
    size_t capacity = old.capacity ? old.capacity : 16;
    while (capacity / 2 < scope->count + count) capacity *= 2;
    if (capacity == old.capacity) return;
    scope->capacity = capacity;
    scope->slots = ARENA_ARRAY(scratch, Value *, capacity);
    for (size_t i = 0; i < old.capacity; i++)
        if (old.slots[i]) *scope_slot(scope, old.slots[i]->name) = old.slots[i];
    arena_release(scratch, old.slots, old.capacity * sizeof *old.slots);
}

Value *scope_declare(Scope *scope, Arena *scratch, Sym name) {
    if (scope->count * 2 >= scope->capacity) scope_reserve(scope, scratch, 1);
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
