// SPDX-License-Identifier: Apache-2.0
/* A recursive-descent parser to a small tree, code for a virtual machine of five instructions, and
 * its simulation with a set of states per text position. */
#include "regex_match.h"

#include <stdint.h>
#include <string.h>

#include "vec.h"

enum { DEEPEST = 100, LONGEST = 20000, MOST_REPEATS = 1000, NO_LIMIT = -1 };

/* A character is a code point; a byte that is not UTF-8 is one of its own, above all of those. */
enum { ASCII_END = 0x80, LAST_CHAR = 0x10FFFF, INVALID = 0x110000 };

typedef struct CharRange {
    uint32_t low, high;
} CharRange;

typedef struct CharSet {
    uint64_t ascii[2];
    bool rest; /* of the others, the ranges are in it, or (rest) all but the ranges */
    VEC(CharRange) ranges;
} CharSet;

typedef enum TreeKind {
    TREE_EMPTY,
    TREE_CHARS,
    TREE_PLACE,
    TREE_THEN,
    TREE_OR,
    TREE_REPEAT
} TreeKind;

typedef struct Tree {
    TreeKind kind;
    CharSet set;
    char place; /* PLACE: '^', '$', 'b' or 'B' */
    struct Tree *a, *b;
    int least, most; /* REPEAT; most may be NO_LIMIT */
} Tree;

typedef enum Op { OP_CHARS, OP_PLACE, OP_SPLIT, OP_JUMP, OP_MATCH } Op;

typedef struct Step {
    Op op;
    char place;
    uint32_t x, y; /* where to go on */
    CharSet set;
} Step;

typedef struct Text {
    const char *bytes;
    size_t length;
} Text;

struct Regex {
    VEC(Step) steps;
    uint32_t *now, *next; /* lists of steps */
    uint32_t *stamp;      /* by step: the last position that listed it, plus 1 */
    uint32_t *stack;
};

typedef struct Parser {
    Arena *arena;
    const char *pattern, *at;
    int depth;
    Err *err;
    Regex *regex;
} Parser;

/* ---- parsing --------------------------------------------------------------------------------- */

static Tree *fail(Parser *p, const char *what) {
    err_set(p->err, ERR_USAGE, "regular expression: %s", what);
    err_operand(p->err, "'%s', character %zu", p->pattern, (size_t)(p->at - p->pattern) + 1);
    return NULL;
}

/* The character at `text`, which has `length` > 0 bytes, and how many bytes it takes. */
static uint32_t decode(const char *text, size_t length, size_t *taken) {
    const unsigned char *bytes = (const unsigned char *)text;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = bytes[0] < 0x80   ? 1
                  : bytes[0] < 0xC0 ? 0
                  : bytes[0] < 0xE0 ? 2
                  : bytes[0] < 0xF0 ? 3
                  : bytes[0] < 0xF8 ? 4
                                    : 0;
    *taken = 1;
    if (size == 1) return bytes[0];
    if (size == 0 || size > length) return INVALID + bytes[0];
    uint32_t value = bytes[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80) return INVALID + bytes[0];
        value = value << 6 | (bytes[i] & 0x3Fu);
    }
    if (value < least[size] || value > LAST_CHAR) return INVALID + bytes[0];
    *taken = size;
    return value;
}

static uint32_t next_char(Parser *p) {
    size_t taken;
    uint32_t c = decode(p->at, strlen(p->at), &taken);
    p->at += taken;
    return c;
}

static void set_add(Parser *p, CharSet *set, CharRange range) {
    for (uint32_t c = range.low; c <= range.high && c < ASCII_END; c++)
        set->ascii[c >> 6] |= UINT64_C(1) << (c & 63);
    if (range.low < ASCII_END) range.low = ASCII_END;
    if (range.high >= ASCII_END && !set->rest) VEC_PUSH(p->arena, &set->ranges, range);
}

static bool set_has(const CharSet *set, uint32_t c) {
    if (c < ASCII_END) return set->ascii[c >> 6] >> (c & 63) & 1;
    for (size_t i = 0; i < set->ranges.count; i++)
        if (c >= set->ranges.items[i].low && c <= set->ranges.items[i].high) return !set->rest;
    return set->rest;
}

static void set_invert(CharSet *set) {
    for (int i = 0; i < 2; i++) set->ascii[i] = ~set->ascii[i];
    set->rest = !set->rest;
}

/* Other sets have no ranges: they are classes such as \d. */
static void set_add_class(CharSet *set, const CharSet *other) {
    for (int i = 0; i < 2; i++) set->ascii[i] |= other->ascii[i];
    if (!other->rest) return;
    set->rest = true;
    set->ranges.count = 0;
}

static bool in_class(char name, unsigned char c) {
    bool digit = c >= '0' && c <= '9';
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (name == 'd') return digit;
    if (name == 's') return c == ' ' || (c >= '\t' && c <= '\r');
    return digit || letter || c == '_';
}

/* What follows a backslash: a class, a control character, or the character itself. */
static CharSet escaped(Parser *p) {
    static const char names[] = "tnvfr"; /* 9 to 13 */
    CharSet set = {0};
    char c = *p->at, lower = (char)(c | 0x20);
    const char *control = strchr(names, c);
    uint32_t literal = next_char(p);
    if (lower != 'd' && lower != 'w' && lower != 's') {
        if (control) literal = (uint32_t)('\t' + (control - names));
        set_add(p, &set, (CharRange){literal, literal});
        return set;
    }
    for (uint32_t i = 0; i < ASCII_END; i++)
        if (in_class(lower, (unsigned char)i)) set_add(p, &set, (CharRange){i, i});
    if (c != lower) set_invert(&set);
    return set;
}

static Tree *tree_new(Parser *p, TreeKind kind, Tree *a, Tree *b) {
    Tree *tree = ARENA_NEW(p->arena, Tree);
    *tree = (Tree){.kind = kind, .a = a, .b = b};
    return tree;
}

/* After '['. */
static Tree *parse_class(Parser *p) {
    Tree *tree = tree_new(p, TREE_CHARS, NULL, NULL);
    bool inverted = *p->at == '^';
    if (inverted) p->at++;
    for (bool first = true; *p->at != ']' || first; first = false) {
        if (!*p->at) return fail(p, "'[' is not closed");
        if (*p->at == '\\' && p->at[1]) {
            p->at++;
            CharSet set = escaped(p);
            for (size_t i = 0; i < set.ranges.count; i++)
                set_add(p, &tree->set, set.ranges.items[i]);
            set_add_class(&tree->set, &set);
            continue;
        }
        CharRange range = {.low = next_char(p)};
        range.high = range.low;
        if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
            p->at++;
            range.high = next_char(p);
        }
        if (range.high < range.low) return fail(p, "a range runs backwards");
        set_add(p, &tree->set, range);
    }
    p->at++;
    if (inverted) set_invert(&tree->set);
    return tree;
}

static Tree *parse_either(Parser *p);

static Tree *parse_group(Parser *p) {
    if (++p->depth > DEEPEST) return fail(p, "nested too deeply");
    if (*p->at == '?' && p->at[1] != ':') return fail(p, "only '(' and '(?:' begin groups");
    if (*p->at == '?') p->at += 2;
    Tree *tree = parse_either(p);
    p->depth--;
    if (!tree) return NULL;
    if (*p->at != ')') return fail(p, "'(' is not closed");
    p->at++;
    return tree;
}

static Tree *parse_atom(Parser *p) {
    char c = *p->at;
    uint32_t literal = next_char(p);
    if (c == '(') return parse_group(p);
    if (c == '[') return parse_class(p);
    if (c == '*' || c == '+' || c == '?' || c == '{') return fail(p, "nothing to repeat");
    if (c == '\\' && !*p->at) return fail(p, "ends with a backslash");
    bool place = c == '^' || c == '$' || (c == '\\' && strchr("bBAz", *p->at));
    Tree *tree = tree_new(p, place ? TREE_PLACE : TREE_CHARS, NULL, NULL);
    if (place) {
        tree->place = c == '\\' ? *p->at++ : c;
        return tree;
    }
    if (c == '\\')
        tree->set = escaped(p);
    else if (c == '.')
        set_invert(&tree->set);
    else
        set_add(p, &tree->set, (CharRange){literal, literal});
    return tree;
}

static bool parse_number(Parser *p, int *number) {
    if (*p->at < '0' || *p->at > '9') return false;
    for (*number = 0; *p->at >= '0' && *p->at <= '9'; p->at++) {
        *number = *number * 10 + (*p->at - '0');
        if (*number > MOST_REPEATS) *number = MOST_REPEATS + 1;
    }
    return true;
}

/* After '{'. */
static bool parse_bounds(Parser *p, Tree *repeat) {
    if (!parse_number(p, &repeat->least)) return fail(p, "a number must follow '{'");
    repeat->most = repeat->least;
    if (*p->at == ',') {
        p->at++;
        if (!parse_number(p, &repeat->most)) repeat->most = NO_LIMIT;
    }
    if (*p->at++ != '}') return fail(p, "'{' is not closed");
    bool ordered = repeat->most == NO_LIMIT || repeat->least <= repeat->most;
    if (!ordered || repeat->least > MOST_REPEATS || repeat->most > MOST_REPEATS)
        return fail(p, "repetition out of range");
    return true;
}

static Tree *parse_repeat(Parser *p) {
    Tree *tree = parse_atom(p);
    while (tree && *p->at && strchr("*+?{", *p->at)) {
        Tree *repeat = tree_new(p, TREE_REPEAT, tree, NULL);
        char c = *p->at++;
        repeat->least = c == '+';
        repeat->most = c == '?' ? 1 : NO_LIMIT;
        if (c == '{' && !parse_bounds(p, repeat)) return NULL;
        if (*p->at == '?') p->at++; /* as few as possible: a whole match is one either way */
        if (++p->depth > DEEPEST) return fail(p, "nested too deeply");
        tree = repeat;
    }
    return tree;
}

static Tree *parse_sequence(Parser *p) {
    Tree *tree = tree_new(p, TREE_EMPTY, NULL, NULL);
    int depth = p->depth;
    while (*p->at && *p->at != '|' && *p->at != ')') {
        Tree *next = parse_repeat(p);
        if (!next) return NULL;
        p->depth = depth;
        tree = tree_new(p, TREE_THEN, tree, next);
    }
    return tree;
}

static Tree *parse_either(Parser *p) {
    Tree *tree = parse_sequence(p);
    while (tree && *p->at == '|') {
        p->at++;
        Tree *other = parse_sequence(p);
        tree = other ? tree_new(p, TREE_OR, tree, other) : NULL;
    }
    return tree;
}

/* ---- code ------------------------------------------------------------------------------------ */

static uint32_t emit(Parser *p, Op op, const CharSet *set) {
    Regex *regex = p->regex;
    Step step = {.op = op, .x = (uint32_t)regex->steps.count + 1};
    if (set) step.set = *set;
    VEC_PUSH(p->arena, &regex->steps, step);
    return (uint32_t)regex->steps.count - 1;
}

static uint32_t here(const Parser *p) {
    return (uint32_t)p->regex->steps.count;
}

static bool generate(Parser *p, const Tree *tree);

static bool generate_repeat(Parser *p, const Tree *tree) {
    for (int i = 0; i < tree->least; i++)
        if (!generate(p, tree->a)) return false;
    if (tree->most == NO_LIMIT) {
        uint32_t split = emit(p, OP_SPLIT, NULL);
        if (!generate(p, tree->a)) return false;
        uint32_t jump = emit(p, OP_JUMP, NULL);
        p->regex->steps.items[jump].x = split;
        p->regex->steps.items[split].y = here(p);
        return true;
    }
    VEC(uint32_t) splits = {0};
    for (int i = tree->least; i < tree->most; i++) {
        VEC_PUSH(p->arena, &splits, emit(p, OP_SPLIT, NULL));
        if (!generate(p, tree->a)) return false;
    }
    for (size_t i = 0; i < splits.count; i++) p->regex->steps.items[splits.items[i]].y = here(p);
    return true;
}

/* Alternatives are a left-leaning chain, like sequences below. */
static bool generate_or(Parser *p, const Tree *tree) {
    VEC(const Tree *) parts = {0};
    VEC(uint32_t) jumps = {0};
    for (; tree->kind == TREE_OR; tree = tree->a) VEC_PUSH(p->arena, &parts, tree->b);
    VEC_PUSH(p->arena, &parts, tree);
    for (size_t i = parts.count; i-- > 1;) {
        uint32_t split = emit(p, OP_SPLIT, NULL);
        if (!generate(p, parts.items[i])) return false;
        VEC_PUSH(p->arena, &jumps, emit(p, OP_JUMP, NULL));
        p->regex->steps.items[split].y = here(p);
    }
    if (!generate(p, parts.items[0])) return false;
    for (size_t i = 0; i < jumps.count; i++) p->regex->steps.items[jumps.items[i]].x = here(p);
    return true;
}

/* A sequence is a left-leaning chain as long as the pattern: its parts are collected, not recursed
 * into. */
static bool generate_sequence(Parser *p, const Tree *tree) {
    VEC(const Tree *) parts = {0};
    for (; tree->kind == TREE_THEN; tree = tree->a) VEC_PUSH(p->arena, &parts, tree->b);
    for (size_t i = parts.count; i-- > 0;)
        if (!generate(p, parts.items[i])) return false;
    return true;
}

static bool generate(Parser *p, const Tree *tree) {
    if (here(p) > LONGEST) return fail(p, "too long after expanding its repetitions");
    switch (tree->kind) {
    case TREE_EMPTY: return true;
    case TREE_CHARS: emit(p, OP_CHARS, &tree->set); return true;
    case TREE_PLACE: {
        uint32_t step = emit(p, OP_PLACE, NULL);
        p->regex->steps.items[step].place = tree->place;
        return true;
    }
    case TREE_THEN: return generate_sequence(p, tree);
    case TREE_OR: return generate_or(p, tree);
    case TREE_REPEAT: return generate_repeat(p, tree);
    }
    return false;
}

Regex *regex_compile(Arena *arena, const char *pattern, Err *err) {
    Parser p = {.arena = arena, .pattern = pattern, .at = pattern, .err = err};
    p.regex = ARENA_NEW(arena, Regex);
    Tree *tree = parse_either(&p);
    if (tree && *p.at) tree = fail(&p, "')' without '('");
    if (!tree || !generate(&p, tree)) return NULL;
    emit(&p, OP_MATCH, NULL);
    size_t count = p.regex->steps.count;
    p.regex->now = ARENA_ARRAY(arena, uint32_t, count);
    p.regex->next = ARENA_ARRAY(arena, uint32_t, count);
    p.regex->stamp = ARENA_ARRAY(arena, uint32_t, count);
    p.regex->stack = ARENA_ARRAY(arena, uint32_t, 2 * count + 1);
    return p.regex;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* Whether what a step asks of a position holds there. */
static bool place_holds(char place, Text text, size_t at) {
    bool before = at > 0 && in_class('w', (unsigned char)text.bytes[at - 1]);
    bool after = at < text.length && in_class('w', (unsigned char)text.bytes[at]);
    if (place == '^' || place == 'A') return at == 0;
    if (place == '$' || place == 'z') return at == text.length;
    return (before != after) == (place == 'b');
}

/* Adds the steps that `start` leads to at a position without reading; each at most once. */
static uint32_t follow(Regex *regex, uint32_t start, Text text, size_t at, uint32_t count) {
    uint32_t depth = 0, stamp = (uint32_t)at + 1;
    regex->stack[depth++] = start;
    while (depth > 0) {
        uint32_t i = regex->stack[--depth];
        if (regex->stamp[i] == stamp) continue;
        regex->stamp[i] = stamp;
        const Step *step = &regex->steps.items[i];
        if (step->op == OP_CHARS || step->op == OP_MATCH) {
            regex->next[count++] = i;
            continue;
        }
        if (step->op == OP_PLACE && !place_holds(step->place, text, at)) continue;
        if (step->op == OP_SPLIT) regex->stack[depth++] = step->y;
        regex->stack[depth++] = step->x;
    }
    return count;
}

bool regex_matches(Regex *regex, const char *text, size_t length) {
    return regex_matches_until(regex, text, length, NULL);
}

bool regex_matches_until(Regex *regex, const char *text, size_t length, RunEnd *end) {
    enum { STEPS_BETWEEN = 1 << 16 };
    uint64_t steps = 0;
    memset(regex->stamp, 0, regex->steps.count * sizeof *regex->stamp);
    const Text whole = {text, length};
    uint32_t count = follow(regex, 0, whole, 0, 0);
    for (size_t at = 0, taken; at < length && count > 0; at += taken) {
        uint32_t c = decode(text + at, length - at, &taken);
        uint32_t *swap = regex->now;
        regex->now = regex->next;
        regex->next = swap;
        uint32_t now_count = count;
        steps += 1 + count;
        if (end && steps >= STEPS_BETWEEN) {
            steps = 0;
            if (run_end_came(end, true)) run_end_leave(end);
        }
        count = 0;
        for (uint32_t i = 0; i < now_count; i++) {
            const Step *step = &regex->steps.items[regex->now[i]];
            if (step->op == OP_CHARS && set_has(&step->set, c))
                count = follow(regex, step->x, whole, at + taken, count);
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (regex->steps.items[regex->next[i]].op == OP_MATCH) return true;
    return false;
}
