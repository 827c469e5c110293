// SPDX-License-Identifier: Apache-2.0
/* Hash table of interned names: SipHash-1-3, open addressing, at most half full.
 *
 * Names come from files. With a hash that everyone can compute, a file of names that all collide would
 * cost quadratic time; so each table has a random key, and what depends on it (the order of slots) is
 * seen by nobody: whoever lists names does so in the order of the file. */
#include "sym.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* SipHash's state, as published by Aumasson and Bernstein (2012). */
typedef struct Sip {
    uint64_t a, b, c, d;
} Sip;

static uint64_t rotate(uint64_t x, unsigned by) { return x << by | x >> (64 - by); }

static inline void sip_round(Sip *s) {
    s->a += s->b;
    s->c += s->d;
    s->b = rotate(s->b, 13) ^ s->a;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a = rotate(s->a, 32) + s->d;
    s->c += s->b;
    s->d = rotate(s->d, 21) ^ s->a;
    s->b = rotate(s->b, 17) ^ s->c;
    s->c = rotate(s->c, 32);
}

static inline void sip_add(Sip *s, uint64_t word) {
    s->d ^= word;
    sip_round(s);
    s->a ^= word;
}

/* One compression round a word and three at the end: SipHash-1-3. */
static uint32_t hash_bytes(const SymTable *table, const char *text, size_t length) {
    Sip s = {table->key[0] ^ UINT64_C(0x736f6d6570736575), table->key[1] ^ UINT64_C(0x646f72616e646f6d),
             table->key[0] ^ UINT64_C(0x6c7967656e657261), table->key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word = 0;
    size_t whole = length & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        memcpy(&word, text + i, 8);
        sip_add(&s, word);
    }
    word = 0;
    if (length > whole) memcpy(&word, text + whole, length - whole);
    sip_add(&s, word | (uint64_t)length << 56);
    s.c ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(&s);
    uint64_t hash = s.a ^ s.b ^ s.c ^ s.d;
    return (uint32_t)(hash ^ hash >> 32);
}

/* Without random bytes (a kernel that has none yet), addresses and the time have to do. */
static void key_fill(SymTable *table) {
    if (getrandom(table->key, sizeof table->key, GRND_NONBLOCK) == (ssize_t)sizeof table->key) return;
    struct timespec now = {0};
    timespec_get(&now, TIME_UTC);
    table->key[0] = (uint64_t)(uintptr_t)table ^ (uint64_t)now.tv_nsec << 32;
    table->key[1] = (uint64_t)(uintptr_t)&key_fill ^ (uint64_t)now.tv_sec;
}

void sym_table_init(SymTable *table, Arena *arena) {
    *table = (SymTable){.arena = arena};
    key_fill(table);
}

/* The slot that holds these bytes, or the free slot where they belong. capacity must not be 0. */
static Sym *slot_of(const SymTable *table, const char *text, size_t length, uint32_t hash) {
    size_t mask = table->capacity - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        Sym sym = table->slots[i];
        if (!sym) return &table->slots[i];
        if (sym->hash != hash || sym->length != length) continue;
        if (length == 0 || memcmp(sym->text, text, length) == 0) return &table->slots[i];
    }
}

static void table_grow(SymTable *table) {
    SymTable old = *table;
    table->capacity = old.capacity ? old.capacity * 2 : 64;
    table->slots = ARENA_ARRAY(table->arena, Sym, table->capacity);
    for (size_t i = 0; i < old.capacity; i++) {
        Sym sym = old.slots[i];
        if (sym) *slot_of(table, sym->text, sym->length, sym->hash) = sym;
    }
}

Sym sym_intern(SymTable *table, const char *text, size_t length) {
    if (length >= UINT32_MAX) arena_exhausted(table->arena);
    if (table->count * 2 >= table->capacity) table_grow(table);
    uint32_t hash = hash_bytes(table, text, length);
    Sym *slot = slot_of(table, text, length, hash);
    if (*slot) return *slot;
    SymData *sym = arena_alloc(table->arena, sizeof *sym + length + 1);
    sym->length = (uint32_t)length;
    sym->hash = hash;
    if (length) memcpy(sym->text, text, length);
    table->count++;
    return *slot = sym;
}

Sym sym_intern_cstr(SymTable *table, const char *text) {
    return sym_intern(table, text, strlen(text));
}

Sym sym_find(const SymTable *table, const char *text, size_t length) {
    if (!table->capacity) return NULL;
    return *slot_of(table, text, length, hash_bytes(table, text, length));
}

Sym sym_fresh(SymTable *table, const char *stem) {
    enum { SUFFIX = 24 };
    size_t length = strlen(stem);
    Sym taken = sym_find(table, stem, length);
    if (!taken) return sym_intern(table, stem, length);
    SymData *memory = (SymData *)taken; /* the table's own, const to everyone else */
    char *name = arena_alloc(table->arena, length + SUFFIX);
    memcpy(name, stem, length);
    for (;;) {
        unsigned long long number = ++memory->suffix;
        int more = snprintf(name + length, SUFFIX, "_%llu", number);
        if (!sym_find(table, name, length + (size_t)more))
            return sym_intern(table, name, length + (size_t)more);
    }
}

bool sym_equals(Sym sym, const char *text) {
    return sym && sym->length == strlen(text) && memcmp(sym->text, text, sym->length) == 0;
}
