// SPDX-License-Identifier: Apache-2.0
/* Hash table of interned names: keyed SipHash, open addressing, at most three quarters full.
 *
 * Names come from files. With a hash that everyone can compute, a file of names that all collide
 * would cost quadratic time; so each table has a random key, and what depends on it (the order of
 * slots) is seen by nobody: whoever lists names does so in the order of the file.
 *
 * Names of models are numbered, and are met in that order. Those that differ in their last byte
 * only are given neighbouring slots, so that most look-ups in a table far larger than the caches
 * find their slot in them; and a slot holds the hash, so that only names that are equal, or nearly
 * always so, are looked at.
 */
#include "sym.h"

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

/* 1 to 7 bytes as a little-endian word, without a loop: parts that overlap hold the same bytes. */
static uint64_t load_tail(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    size_t middle = length / 2, last = length - 1;
    if (length < 4)
        return bytes[0] | (uint64_t)bytes[middle] << 8 * middle | (uint64_t)bytes[last] << 8 * last;
    uint32_t head, tail;
    memcpy(&head, bytes, sizeof head);
    memcpy(&tail, bytes + length - sizeof tail, sizeof tail);
    return head | (uint64_t)tail << 8 * (length - sizeof tail);
}

/* One compression round a word and three at the end: SipHash-1-3. */
static uint32_t hash_stem(const SymTable *table, const char *text, size_t length) {
    Sip s = {
        table->key[0] ^ UINT64_C(0x736f6d6570736575), table->key[1] ^ UINT64_C(0x646f72616e646f6d),
        table->key[0] ^ UINT64_C(0x6c7967656e657261), table->key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word = 0;
    size_t whole = length & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        memcpy(&word, text + i, 8);
        sip_add(&s, word);
    }
    word = length > whole ? load_tail(text + whole, length - whole) : 0;
    sip_add(&s, word | (uint64_t)length << 56);
    s.c ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(&s);
    uint64_t hash = s.a ^ s.b ^ s.c ^ s.d;
    return (uint32_t)(hash ^ hash >> 32);
}

/* The last byte decides the lowest and the highest bits alone: 16 neighbours. */
static uint32_t hash_bytes(const SymTable *table, const char *text, size_t length) {
    if (length == 0) return 0;
    uint32_t last = (unsigned char)text[length - 1];
    return (hash_stem(table, text, length - 1) << 4 | (last & 15)) ^ (last >> 4) << 28;
}

/* Without random bytes (a kernel that has none yet), addresses and the time have to do. */
static void key_fill(SymTable *table) {
    if (getrandom(table->key, sizeof table->key, GRND_NONBLOCK) == (ssize_t)sizeof table->key)
        return;
    struct timespec now = {0};
    timespec_get(&now, TIME_UTC);
    table->key[0] = (uint64_t)(uintptr_t)table ^ (uint64_t)now.tv_nsec << 32;
    table->key[1] = (uint64_t)(uintptr_t)&key_fill ^ (uint64_t)now.tv_sec;
}

void sym_table_init(SymTable *table, Arena *arena) {
    *table = (SymTable){.arena = arena};
    key_fill(table);
}

typedef struct Key {
    const char *text;
    size_t length;
    uint32_t hash;
} Key;

/* Names are looked at only where the hash says so: they lie further away than slots. */
static bool holds(const SymTable *table, const SymSlot *slot, Key key) {
    if (slot->hash != key.hash || !slot->number) return false;
    Sym sym = table->names[slot->number - 1];
    return sym->length == key.length &&
           (key.length == 0 || memcmp(sym->text, key.text, key.length) == 0);
}

/* The slot that holds these bytes, or the free slot where they belong. capacity must not be 0. */
static SymSlot *slot_of(const SymTable *table, Key key) {
    size_t mask = table->capacity - 1;
    for (size_t i = key.hash & mask;; i = (i + 1) & mask) {
        SymSlot *slot = &table->slots[i];
        if (!slot->number || holds(table, slot, key)) return slot;
    }
}

static void slots_grow(SymTable *table, size_t capacity) {
    SymSlot *old = table->slots;
    size_t old_capacity = table->capacity;
    table->capacity = capacity;
    table->slots = ARENA_ARRAY(table->arena, SymSlot, capacity);
    for (size_t i = 0; i < old_capacity; i++) {
        if (!old[i].number) continue;
        size_t slot = old[i].hash & (capacity - 1); /* all are different: no comparing */
        while (table->slots[slot].number) slot = (slot + 1) & (capacity - 1);
        table->slots[slot] = old[i];
    }
    arena_release(table->arena, old, old_capacity * sizeof *old);
}

void sym_reserve(SymTable *table, size_t count) {
    if (count > UINT32_MAX - table->count) arena_exhausted(table->arena);
    count += table->count;
    size_t capacity = table->capacity ? table->capacity : 64;
    while (capacity / 4 * 3 < count) capacity *= 2;
    if (!table->recent) table->recent = ARENA_ARRAY(table->arena, SymSlot, SYM_RECENT);
    if (capacity > table->capacity) slots_grow(table, capacity);
    if (count <= table->room) return;
    size_t room = count < 2 * table->room ? 2 * table->room : count;
    table->names = arena_resize(table->arena, table->names, table->room * sizeof *table->names,
                                room * sizeof *table->names);
    table->room = room;
}

/* Adds a name that is not there, at its slot, which has its hash. */
static Sym add(SymTable *table, SymSlot *slot, const char *text, size_t length) {
    SymData *sym = arena_alloc(table->arena, sizeof *sym + length + 1);
    sym->length = (uint32_t)length;
    sym->number = (uint32_t)table->count;
    if (length) memcpy(sym->text, text, length);
    table->names[table->count++] = sym;
    slot->number = (uint32_t)table->count;
    return sym;
}

Sym sym_intern(SymTable *table, const char *text, size_t length) {
    if (length >= UINT32_MAX) arena_exhausted(table->arena);
    if (table->count == table->room || table->count >= table->capacity / 4 * 3)
        sym_reserve(table, 1);
    uint32_t hash = hash_bytes(table, text, length);
    SymSlot *recent = &table->recent[hash & (SYM_RECENT - 1)];
    if (holds(table, recent, (Key){text, length, hash})) return table->names[recent->number - 1];
    SymSlot *slot = slot_of(table, (Key){text, length, hash});
    slot->hash = hash;
    Sym sym = slot->number ? table->names[slot->number - 1] : add(table, slot, text, length);
    *recent = *slot;
    return sym;
}

Sym sym_intern_cstr(SymTable *table, const char *text) {
    return sym_intern(table, text, strlen(text));
}

Sym sym_find(const SymTable *table, const char *text, size_t length) {
    if (!table->capacity) return NULL;
    const Key key = {text, length, hash_bytes(table, text, length)};
    const SymSlot *slot = slot_of(table, key);
    return slot->number ? table->names[slot->number - 1] : NULL;
}

/* Appends "_number" to the `length` bytes at name; returns the new length. */
static size_t put_suffix(char *name, size_t length, uint64_t number) {
    char digits[20];
    size_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    name[length++] = '_';
    while (count) name[length++] = digits[--count];
    return length;
}

static SymSuffix *suffix_slot(const SymTable *table, Sym stem) {
    size_t mask = table->suffix_capacity - 1;
    for (size_t i = sym_hash(stem) & mask;; i = (i + 1) & mask) {
        SymSuffix *slot = &table->suffixes[i];
        if (!slot->stem || slot->stem == stem) return slot;
    }
}

static void suffixes_grow(SymTable *table) {
    const SymTable old = *table;
    table->suffix_capacity = old.suffix_capacity ? old.suffix_capacity * 2 : 16;
    table->suffixes = ARENA_ARRAY(table->arena, SymSuffix, table->suffix_capacity);
    for (size_t i = 0; i < old.suffix_capacity; i++)
        if (old.suffixes[i].stem) *suffix_slot(table, old.suffixes[i].stem) = old.suffixes[i];
    arena_release(table->arena, old.suffixes, old.suffix_capacity * sizeof *old.suffixes);
}

/* The number last given to the stem, to be raised. Valid until the next call. */
static uint64_t *suffix_of(SymTable *table, Sym stem) {
    if (table->suffix_count * 2 >= table->suffix_capacity) suffixes_grow(table);
    SymSuffix *slot = suffix_slot(table, stem);
    if (!slot->stem) {
        slot->stem = stem;
        table->suffix_count++;
    }
    return &slot->number;
}

Sym sym_fresh(SymTable *table, const char *stem) {
    enum { SUFFIX = 1 + 20 };
    size_t length = strlen(stem), count = table->count;
    Sym taken = sym_intern(table, stem, length);
    if (table->count > count) return taken;
    uint64_t *last = suffix_of(table, taken);
    char *name = arena_alloc(table->arena, length + SUFFIX);
    memcpy(name, stem, length);
    for (;;) {
        size_t whole = put_suffix(name, length, ++*last);
        if (!sym_find(table, name, whole)) return sym_intern(table, name, whole);
    }
}
