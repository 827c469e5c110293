// SPDX-License-Identifier: Apache-2.0
/* Hash table of interned names: keyed SipHash, in groups of a cache line, at most half full.
 *
 * Names come from files. With a hash that everyone can compute, a file of names that all collide
 * would cost quadratic time; so each table has a random key, and what depends on it (the order in
 * groups) is seen by nobody: whoever lists names does so in the order of the file.
 *
 * The table of a large model is far larger than the caches, where a look-up costs as much as the
 * memory it waits for. So a group is one line, with a byte of each name's hash beside the names'
 * numbers: names that are not equal are hardly ever looked at. Names of models are numbered, and
 * are met in that order: those that differ in their last byte only belong to one group, so that
 * most look-ups find it in the caches. And sym_key fetches the group ahead.
 *
 * A group that is full passes names on to the next one. The group of a hash is its share of all
 * hashes times the number of groups, so that a table can have any size.
 */
#include "sym.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "le_word.h"

/* SipHash's state, as published by Aumasson and Bernstein (2012). */
typedef struct Sip {
    uint64_t a, b, c, d;
} Sip;

static uint64_t rotate(uint64_t x, unsigned by) {
    return x << by | x >> (64 - by);
}

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
static uint64_t hash_stem(const SymTable *table, const char *text, size_t length) {
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
    return s.a ^ s.b ^ s.c ^ s.d;
}

/* The high half decides the group, the low byte is the tag: only that depends on the last byte. */
static uint64_t hash_bytes(const SymTable *table, const char *text, size_t length) {
    if (length == 0) return 0;
    return hash_stem(table, text, length - 1) ^ (unsigned char)text[length - 1];
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

/* ---- groups ---------------------------------------------------------------------------------- */

static uint8_t tag_of(uint64_t hash) {
    return (uint8_t)hash;
}

/* group_count must not be 0. */
static SymGroup *home_of(const SymTable *table, uint64_t hash) {
    return &table->groups[(hash >> 32) * table->group_count >> 32];
}

static SymGroup *group_behind(const SymTable *table, const SymGroup *group) {
    size_t next = (size_t)(group - table->groups) + 1;
    return &table->groups[next < table->group_count ? next : 0];
}

/* Which bytes of the word are `tag`, a bit for each. A byte that differs by 1 and follows one that
 * is equal may be taken for equal too. */
static unsigned bytes_equal(uint64_t word, uint8_t tag) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t differ = word ^ ones * tag;
    uint64_t equal = (differ - ones) & ~differ & ones << 7;
    return (unsigned)((equal >> 7) * UINT64_C(0x0102040810204080) >> 56);
}

/* Where in the group names with that tag may be, a bit for each place. */
static unsigned places_of(const SymGroup *group, uint8_t tag) {
    unsigned first = bytes_equal(le_word(group->tags), tag);
    unsigned last = bytes_equal(le_word(group->tags + SYM_GROUP - 8), tag);
    return (first | last << (SYM_GROUP - 8)) & ((1u << group->count) - 1);
}

static Sym find_in(const SymTable *table, const SymGroup *group, SymKey key) {
    for (unsigned places = places_of(group, tag_of(key.hash)); places; places &= places - 1) {
        Sym sym = table->names[group->numbers[__builtin_ctz(places)]];
        if (sym->length == key.length &&
            (key.length == 0 || memcmp(sym->text, key.text, key.length) == 0))
            return sym;
    }
    return NULL;
}

static Sym find(const SymTable *table, SymKey key) {
    if (!table->group_count) return NULL;
    const SymGroup *group = home_of(table, key.hash);
    Sym sym = find_in(table, group, key);
    while (!sym && group->passed) {
        group = group_behind(table, group);
        sym = find_in(table, group, key);
    }
    return sym;
}

/* Enters a name that is not there. */
static void enter(SymTable *table, uint64_t hash, uint32_t number) {
    SymGroup *group = home_of(table, hash);
    while (group->count == SYM_GROUP) {
        group->passed = true;
        group = group_behind(table, group);
    }
    group->tags[group->count] = tag_of(hash);
    group->numbers[group->count++] = number;
}

/* ---- names ----------------------------------------------------------------------------------- */

enum { LINE = sizeof(SymGroup) };
_Static_assert(LINE == 64, "a group is a cache line");

/* The old table is whole until there is memory for the new one. */
static void groups_grow(SymTable *table, size_t count) {
    void *memory = arena_array(table->arena, count + 1, LINE);
    arena_release(table->arena, table->memory, (table->group_count + 1) * LINE);
    table->memory = memory;
    uintptr_t line = ((uintptr_t)table->memory + LINE - 1) / LINE * LINE;
    table->groups = (SymGroup *)(void *)((char *)table->memory + (line - (uintptr_t)table->memory));
    table->group_count = count;
    for (size_t i = 0; i < table->count; i++) {
        Sym sym = table->names[i];
        enter(table, hash_bytes(table, sym->text, sym->length), (uint32_t)i);
    }
}

static size_t most_names(const SymTable *table) {
    return table->group_count * (SYM_GROUP / 2);
}

void sym_reserve(SymTable *table, size_t count) {
    if (count > UINT32_MAX - table->count) arena_exhausted(table->arena);
    count += table->count;
    if (count > most_names(table)) { /* passes will add names to those of a file */
        size_t most = count + count / 2;
        groups_grow(table, most / (SYM_GROUP / 2) + 4);
    }
    if (count <= table->room) return;
    size_t room = count < 2 * table->room ? 2 * table->room : count;
    table->names = arena_resize(table->arena, table->names, table->room * sizeof *table->names,
                                room * sizeof *table->names);
    table->room = room;
}

static Sym add(SymTable *table, SymKey key) {
    if (table->count == table->room || table->count == most_names(table)) sym_reserve(table, 1);
    SymData *sym = arena_pool_alloc(table->arena, &table->texts, sizeof *sym + key.length + 1);
    sym->length = (uint32_t)key.length;
    sym->number = (uint32_t)table->count;
    if (key.length) memcpy(sym->text, key.text, key.length);
    enter(table, key.hash, sym->number);
    table->names[table->count++] = sym;
    return sym;
}

SymKey sym_key(const SymTable *table, const char *text, size_t length) {
    SymKey key = {text, length, hash_bytes(table, text, length)};
    if (table->group_count) __builtin_prefetch(home_of(table, key.hash));
    return key;
}

Sym sym_intern_key(SymTable *table, SymKey key) {
    if (key.length >= UINT32_MAX) arena_exhausted(table->arena);
    Sym sym = find(table, key);
    return sym ? sym : add(table, key);
}

Sym sym_intern(SymTable *table, const char *text, size_t length) {
    return sym_intern_key(table, (SymKey){text, length, hash_bytes(table, text, length)});
}

Sym sym_intern_cstr(SymTable *table, const char *text) {
    return sym_intern(table, text, strlen(text));
}

Sym sym_find(const SymTable *table, const char *text, size_t length) {
    return find(table, (SymKey){text, length, hash_bytes(table, text, length)});
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

Sym sym_fresh_key(SymTable *table, SymKey stem) {
    enum { SUFFIX = 1 + 20, SHORT = 256 };
    char room[SHORT];
    size_t count = table->count;
    Sym taken = sym_intern_key(table, stem);
    if (table->count > count) return taken;
    uint64_t *last = suffix_of(table, taken);
    char *name = room; /* interning copies it */
    if (stem.length > SHORT - SUFFIX) name = arena_alloc(table->arena, stem.length + SUFFIX);
    if (stem.length) memcpy(name, stem.text, stem.length);
    for (;;) {
        size_t whole = put_suffix(name, stem.length, ++*last);
        if (!sym_find(table, name, whole)) return sym_intern(table, name, whole);
    }
}

Sym sym_fresh(SymTable *table, const char *stem) {
    return sym_fresh_key(table, sym_key(table, stem, strlen(stem)));
}
