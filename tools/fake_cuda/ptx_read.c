// SPDX-License-Identifier: Apache-2.0
/* Decoding kernels: registers are laid out, names become registers and constants, and each statement an
 * instruction. A function that is called is decoded before what calls it, so that its instructions
 * have the lower numbers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_read.h"

/* ---- failing --------------------------------------------------------------------------------- */

bool ptx_refuse(PtxReader *r, const char *format, ...) {
    if (!r->ok) return false;
    r->ok = false;
    int length = snprintf(r->why, PTX_WHY, "PTX of %s: %.*s: ", r->kernel->name,
                          r->text ? (int)strcspn(r->text, ";\n") : 0, r->text ? r->text : "");
    va_list arguments;
    va_start(arguments, format);
    if (length > 0 && length < PTX_WHY)
        vsnprintf(r->why + length, PTX_WHY - (size_t)length, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- registers and symbols ------------------------------------------------------------------- */

/* One of `width` bytes a lane; 0 is a predicate. */
static uint32_t new_register(PtxReader *r, uint32_t width, uint32_t count) {
    const uint32_t at = r->kernel->registers, stride = width ? width * PTX_LANES : 64;
    r->kernel->registers += stride * count;
    return at;
}

uint32_t ptx_new_register(PtxReader *r, uint32_t width) {
    return new_register(r, width, 1);
}

uint32_t ptx_constant(PtxReader *r, uint64_t value, uint32_t width) {
    PtxKernel *k = r->kernel;
    if (width && width < 8) value &= (UINT64_C(1) << 8 * width) - 1;
    for (uint32_t i = 0; i < k->constant_count; i++)
        if (k->constants[i].value == value && k->constants[i].width == width)
            return k->constants[i].at;
    k->constants =
        ptx_grow(k->constants, k->constant_count, &k->constant_room, sizeof *k->constants);
    const uint32_t at = new_register(r, width, 1);
    k->constants[k->constant_count++] = (PtxConstant){value, at, (uint8_t)width};
    return at;
}

PtxSymbol *ptx_symbol(PtxReader *r, PtxSlice name) {
    for (uint32_t i = r->symbol_count; i-- > 0;)
        if (ptx_same(r->symbols[i].name, name)) return &r->symbols[i];
    return NULL;
}

static PtxSymbol *add_symbol(PtxReader *r, PtxSymbol symbol) {
    PtxSymbol *old = ptx_symbol(r, symbol.name);
    if (!old) {
        r->symbols = ptx_grow(r->symbols, r->symbol_count, &r->symbol_room, sizeof *r->symbols);
        old = &r->symbols[r->symbol_count++];
    }
    *old = symbol;
    return old;
}

/* Bytes of a type, 0 for a predicate; -1 for what is not known. */
int ptx_type_size(PtxSlice type) {
    static const struct {
        const char *name;
        int size;
    } sizes[] = {{".pred", 0}, {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2},
                 {".u16", 2},  {".s16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},
                 {".f32", 4},  {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (ptx_is(type, sizes[i].name)) return sizes[i].size;
    return -1;
}

static uint32_t number_in(PtxSlice s, char before) {
    const char *at = memchr(s.at, before, s.length);
    return at ? (uint32_t)strtoul(at + 1, NULL, 10) : 0;
}

/* .reg .b32 %r<12>; .reg .b32 %temp */
static void declare_registers(PtxReader *r, PtxSlice rest) {
    const PtxSlice type = ptx_word(rest);
    const int width = ptx_type_size(type);
    PtxSlice name = ptx_trim((PtxSlice){type.at + type.length, rest.length - type.length});
    const uint32_t count = number_in(name, '<');
    if (width < 0 || width == 1) {
        ptx_refuse(r, "an unknown type");
        return;
    }
    name = ptx_word(name);
    PtxSymbol *old = ptx_symbol(r, name);
    if (old && old->kind == PTX_REGISTER && old->width == width && !count) return;
    add_symbol(r, (PtxSymbol){name, count ? PTX_REGISTERS : PTX_REGISTER, (uint8_t)width,
                              new_register(r, (uint32_t)width, count ? count : 1), count});
}

/* .shared .align 16 .b8 name[128]: the same of .local */
static void declare_memory(PtxReader *r, PtxSlice rest, bool shared) {
    PtxSlice align = ptx_word(rest);
    uint32_t *used = shared ? &r->kernel->info.shared : &r->kernel->local;
    const char *at = ptx_search(rest, ".b8 ");
    if (!ptx_is(align, ".align") || !at) {
        ptx_refuse(r, "memory that is not of bytes");
        return;
    }
    const uint32_t step = (uint32_t)strtoul(align.at + align.length, NULL, 10);
    const PtxSlice name = ptx_word((PtxSlice){at + 4, rest.length});
    *used = (*used + step - 1) / step * step;
    add_symbol(r, (PtxSymbol){name, PTX_ADDRESS, 0, *used, 0});
    *used += number_in((PtxSlice){name.at, (uint32_t)(rest.at + rest.length - name.at)}, '[');
}

/* .param .b32 name, of a call: a register */
static PtxSymbol *declare_param(PtxReader *r, PtxSlice rest) {
    const PtxSlice type = ptx_word(rest);
    const int width = ptx_type_size(type);
    const PtxSlice name = ptx_word((PtxSlice){type.at + type.length, rest.length - type.length});
    if (width < 4 || (rest.length && rest.at[rest.length - 1] == ']')) {
        ptx_refuse(r, "a parameter that is no register");
        return NULL;
    }
    PtxSymbol *old = ptx_symbol(r, name);
    if (old && old->kind == PTX_VALUE && old->width == width) return old;
    return add_symbol(
        r, (PtxSymbol){name, PTX_VALUE, (uint8_t)width, new_register(r, (uint32_t)width, 1), 0});
}

/* ---- operands -------------------------------------------------------------------------------- */

static uint32_t special(PtxReader *r, PtxSlice name) {
    static const char *const names[PTX_SPECIALS] = {
        "%tid.x",    "%tid.y",    "%tid.z",   "%ntid.x",          "%ntid.y",
        "%ntid.z",   "%ctaid.x",  "%ctaid.y", "%ctaid.z",         "%nctaid.x",
        "%nctaid.y", "%nctaid.z", "%laneid",  "%cluster_ctarank", "%cluster_nctarank"};
    for (uint32_t i = 0; i < PTX_SPECIALS; i++) {
        if (!ptx_is(name, names[i])) continue;
        if (!r->kernel->specials[i]) r->kernel->specials[i] = new_register(r, 4, 1);
        return r->kernel->specials[i];
    }
    return 0;
}

/* A register by its name, with its width; 0 for none. */
uint32_t ptx_register(PtxReader *r, PtxSlice name, uint32_t *width) {
    PtxSymbol *s = ptx_symbol(r, name);
    *width = 4;
    if (s && (s->kind == PTX_REGISTER || s->kind == PTX_VALUE)) {
        *width = s->width;
        return s->at;
    }
    PtxSlice letters = name;
    while (letters.length && letters.at[letters.length - 1] >= '0' &&
           letters.at[letters.length - 1] <= '9')
        letters.length--;
    if (letters.length == name.length || !(s = ptx_symbol(r, letters)) || s->kind != PTX_REGISTERS)
        return special(r, name);
    const uint32_t number = (uint32_t)strtoul(name.at + letters.length, NULL, 10);
    if (number >= s->count) return 0;
    *width = s->width;
    return s->at + number * (s->width ? s->width * PTX_LANES : 64u);
}

/* A number, or the address that a name stands for. */
static bool value_of(PtxReader *r, PtxSlice s, uint64_t *value) {
    char *end;
    if (ptx_starts(s, "0f") || ptx_starts(s, "0d") || ptx_starts(s, "0F") || ptx_starts(s, "0D")) {
        *value = strtoull(s.at + 2, &end, 16);
        return true;
    }
    if (s.length && ((s.at[0] >= '0' && s.at[0] <= '9') || s.at[0] == '-')) {
        *value = s.at[0] == '-' ? (uint64_t)strtoll(s.at, &end, 0) : strtoull(s.at, &end, 0);
        return true;
    }
    if (ptx_same(s, r->params)) { /* parameters are a space of their own, from 0 on */
        *value = 0;
        return true;
    }
    const PtxSymbol *symbol = ptx_symbol(r, s);
    if (symbol && symbol->kind == PTX_ADDRESS) {
        *value = symbol->at;
        return true;
    }
    for (uint32_t i = 0; i < r->module->data_count; i++) {
        const PtxData *d = &r->module->data[i];
        if (!ptx_same(d->name, s)) continue;
        *value = d->shared ? (r->kernel->info.shared + 15) & ~15u : d->region.address;
        return true;
    }
    return false;
}

/* A register or constant of that width. */
uint32_t ptx_operand(PtxReader *r, PtxSlice s, uint32_t width) {
    uint64_t value;
    uint32_t found;
    const uint32_t at = ptx_register(r, s, &found);
    if (at && found == width) return at;
    if (at) {
        ptx_refuse(r, "%.*s has %u bytes, not %u", (int)s.length, s.at, found, width);
        return 0;
    }
    if (value_of(r, s, &value)) return ptx_constant(r, value, width);
    ptx_refuse(r, "what is %.*s?", (int)s.length, s.at);
    return 0;
}

PtxInstr *ptx_emit(PtxReader *r, PtxRun *run, PtxKind kind) {
    PtxKernel *k = r->kernel;
    k->code = ptx_grow(k->code, k->count, &k->room, sizeof *k->code);
    PtxInstr *i = &k->code[k->count++];
    *i = (PtxInstr){.run = run, .kind = (uint8_t)kind, .text = r->text};
    i->guard = r->guard;
    i->negated = r->negated;
    return i;
}

/* ---- functions ------------------------------------------------------------------------------- */

static bool set_guard(PtxReader *r, PtxSlice guard) {
    uint32_t width;
    r->guard = 0;
    if (!guard.length) return true;
    r->negated = guard.at[0] == '!';
    if (r->negated) guard.at++, guard.length--;
    r->guard = ptx_register(r, guard, &width);
    return (r->guard && width == 0) || ptx_refuse(r, "an unknown predicate");
}

static void directive(PtxReader *r, const PtxStatement *s) {
    if (ptx_is(s->name, ".reg"))
        declare_registers(r, s->rest);
    else if (ptx_is(s->name, ".shared"))
        declare_memory(r, s->rest, true);
    else if (ptx_is(s->name, ".local"))
        declare_memory(r, s->rest, false);
    else if (ptx_is(s->name, ".param"))
        declare_param(r, s->rest);
    else if (!ptx_is(s->name, ".pragma") && !ptx_is(s->name, ".loc"))
        ptx_refuse(r, "an unknown directive");
}

/* Branches were written with their label's name for a target. */
static void resolve(PtxReader *r) {
    for (uint32_t j = 0; j < r->jump_count && r->ok; j++) {
        const PtxJump *jump = &r->jumps[j];
        uint32_t l = 0;
        while (l < r->label_count && !ptx_same(r->labels[l].name, jump->name)) l++;
        if (l == r->label_count) {
            ptx_refuse(r, "no label %.*s", (int)jump->name.length, jump->name.at);
            return;
        }
        r->kernel->code[jump->at].target = r->labels[l].at;
    }
    r->jump_count = r->label_count = 0;
}

/* Results and parameters of a function that is called are registers. */
static void declare_formals(PtxReader *r, PtxCalled *called, PtxSlice header) {
    const char *name = called->function->name.at, *end = header.at + header.length;
    const char *open = memchr(header.at, '(', (size_t)(name - header.at));
    PtxSlice list, one;
    if (open) {
        const char *close = memchr(open, ')', (size_t)(end - open));
        list = ptx_inside((PtxSlice){open, (uint32_t)(close + 1 - open)});
        PtxSlice word = ptx_word(list); /* .param */
        const PtxSymbol *s = declare_param(
            r, ptx_trim((PtxSlice){word.at + word.length, list.length - word.length}));
        if (s) called->result = s->at, called->result_width = s->width;
    }
    open = memchr(name, '(', (size_t)(end - name));
    const char *close = open ? memchr(open, ')', (size_t)(end - open)) : NULL;
    list = close ? ptx_inside((PtxSlice){open, (uint32_t)(close + 1 - open)}) : (PtxSlice){0};
    while (ptx_next_operand(&list, &one)) {
        PtxSlice word = ptx_word(one);
        const PtxSymbol *s =
            declare_param(r, ptx_trim((PtxSlice){word.at + word.length, one.length - word.length}));
        if (!s || called->count == PTX_FORMALS) {
            ptx_refuse(r, "too many parameters");
            return;
        }
        called->formals[called->count] = s->at;
        called->widths[called->count++] = s->width;
    }
}

static void read_body(PtxReader *r, const PtxFunction *f) {
    const char *at = f->body.at, *end = at + f->body.length;
    PtxStatement s;
    while (r->ok && ptx_next(&at, end, &s)) {
        r->text = s.guard.length ? s.guard.at - 1 : s.name.at;
        if (s.label) {
            r->labels = ptx_grow(r->labels, r->label_count, &r->label_room, sizeof *r->labels);
            r->labels[r->label_count++] = (PtxJump){s.name, r->kernel->count};
        } else if (s.name.length && s.name.at[0] == '.') {
            directive(r, &s);
        } else if (set_guard(r, s.guard)) {
            ptx_read_instruction(r, &s);
        }
    }
    resolve(r);
}

static bool read_function(PtxReader *r, const PtxFunction *f);

/* What the function calls is decoded first. */
static void read_called(PtxReader *r, const PtxFunction *f) {
    const char *at = f->body.at, *end = at + f->body.length;
    while (r->ok && (at = ptx_search((PtxSlice){at, (uint32_t)(end - at)}, "call.uni"))) {
        PtxSlice rest = {at + 8, (uint32_t)(strcspn(at, ";") - 8)}, name;
        at += 8;
        if (!ptx_next_operand(&rest, &name)) continue;
        if (name.length && name.at[0] == '(') ptx_next_operand(&rest, &name);
        if (ptx_called(r, name)) continue;
        for (uint32_t k = 0; k < r->module->function_count; k++)
            if (ptx_same(r->module->functions[k].name, name)) {
                read_function(r, &r->module->functions[k]);
                break;
            }
    }
}

PtxCalled *ptx_called(PtxReader *r, PtxSlice name) {
    for (uint32_t k = 0; k < r->called_count; k++)
        if (ptx_same(r->called[k].function->name, name)) return &r->called[k];
    return NULL;
}

static bool read_function(PtxReader *r, const PtxFunction *f) {
    if (r->depth++ > 16) return ptx_refuse(r, "functions that call each other");
    read_called(r, f);
    r->symbol_count = 0;
    r->returns = 0;
    if (!f->entry) {
        r->called = ptx_grow(r->called, r->called_count, &r->called_room, sizeof *r->called);
        PtxCalled *called = &r->called[r->called_count++];
        *called = (PtxCalled){.function = f, .entry = r->kernel->count};
        called->returns = r->returns = new_register(r, 4, 1);
        declare_formals(r, called, f->header);
    }
    if (f->entry) r->kernel->entry = r->kernel->count;
    read_body(r, f);
    r->depth--;
    return r->ok;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Parameters of an entry lie one behind the other; .maxntid x, y, z. */
static void read_header(PtxReader *r, const PtxFunction *f) {
    const char *end = f->header.at + f->header.length;
    const char *open = memchr(f->name.at, '(', (size_t)(end - f->name.at));
    const char *close = open ? memchr(open, ')', (size_t)(end - open)) : NULL;
    PtxSlice list =
        close ? ptx_inside((PtxSlice){open, (uint32_t)(close + 1 - open)}) : (PtxSlice){0};
    PtxSlice one;
    r->symbol_count = 0;
    while (ptx_next_operand(&list, &one)) {
        const char *size = memchr(one.at, '[', one.length);
        const char *last = size ? size : one.at + one.length, *name = last;
        while (name > one.at && name[-1] != ' ') name--;
        if (!size || r->kernel->info.params) {
            ptx_refuse(r, "its parameter is not one struct");
            return;
        }
        r->params = (PtxSlice){name, (uint32_t)(last - name)};
        r->kernel->info.params = (uint32_t)strtoul(size + 1, NULL, 10);
    }
    const char *most = ptx_search(f->header, ".maxntid");
    if (!most) return;
    uint32_t product = 1;
    char *at = (char *)(uintptr_t)(most + 8);
    for (int i = 0; i < 3; i++) {
        product *= (uint32_t)strtoul(at, &at, 10);
        if (*at == ',') at++;
    }
    r->kernel->info.most_threads = product;
}

static void reader_free(PtxReader *r) {
    free(r->symbols);
    free(r->labels);
    free(r->jumps);
    free(r->called);
}

static void make_image(PtxKernel *k) {
    k->image = aligned_alloc(64, k->registers);
    if (!k->image) abort();
    memset(k->image, 0xa5, k->registers); /* what is used before it is set */
    for (uint32_t c = 0; c < k->constant_count; c++) {
        const PtxConstant *constant = &k->constants[c];
        uint8_t *to = k->image + constant->at;
        if (constant->width == 0) memset(to, constant->value ? UINT8_MAX : 0, sizeof(uint32_t));
        for (size_t l = 0; l < PTX_LANES; l++)
            memcpy(to + l * constant->width, &constant->value, constant->width);
    }
}

static void kernel_free(PtxKernel *k) {
    free(k->code);
    free(k->constants);
    free(k->image);
    free(k->ways);
    free(k);
}

const PtxKernel *ptx_find(PtxModule *m, const char *name, char *why) {
    for (PtxKernel *k = m->kernels; k; k = k->next)
        if (strcmp(k->name, name) == 0) return k;
    const PtxFunction *f = m->functions, *end = f + m->function_count;
    while (f < end && !(f->entry && ptx_is(f->name, name))) f++;
    PtxKernel *k = f < end ? calloc(1, sizeof *k + strlen(name) + 1) : NULL;
    if (!k) {
        snprintf(why, PTX_WHY, "the module has no kernel %s", name);
        return NULL;
    }
    char *copy = strcpy((char *)(k + 1), name);
    k->name = copy;
    k->module = m;
    k->registers = 64; /* 0 is no register */
    k->shift = 4;
    PtxReader r = {.module = m, .kernel = k, .why = why, .ok = true};
    read_header(&r, f);
    if (r.ok) read_function(&r, f);
    reader_free(&r);
    if (!r.ok) {
        kernel_free(k);
        return NULL;
    }
    make_image(k);
    k->ways = calloc(k->count + 1, 1);
    if (!k->ways) abort();
    k->next = m->kernels;
    m->kernels = k;
    return k;
}

void ptx_reached(PtxModule *m, FILE *to) {
    for (const PtxKernel *k = m->kernels; k; k = k->next)
        for (uint32_t i = 0; i <= k->count; i++) {
            if (k->ways[i]) fprintf(to, "%s %u %u\n", k->name, i, k->ways[i]);
            k->ways[i] = 0;
        }
}

const PtxKernelInfo *ptx_info(const PtxKernel *kernel) {
    return &kernel->info;
}

const char *ptx_kernel_name(const PtxKernel *kernel) {
    return kernel->name;
}

const char *ptx_name(const PtxModule *m, uint32_t number) {
    static _Thread_local char name[256];
    for (uint32_t k = 0; k < m->function_count; k++) {
        const PtxFunction *f = &m->functions[k];
        if (!f->entry || number--) continue;
        snprintf(name, sizeof name, "%.*s", (int)f->name.length, f->name.at);
        return name;
    }
    return NULL;
}

const PtxRegion *ptx_module_data(const PtxModule *m, uint64_t address) {
    for (uint32_t k = 0; k < m->data_count; k++) {
        const PtxRegion *r = &m->data[k].region;
        if (address - r->address < r->size) return r;
    }
    return NULL;
}

PtxModule *ptx_open(const char *text, char *why) {
    PtxModule *m = calloc(1, sizeof *m);
    if (!m) abort();
    if (ptx_scan(m, text, why)) return m;
    ptx_close(m);
    return NULL;
}

void ptx_close(PtxModule *m) {
    for (PtxKernel *k = m->kernels, *next; k; k = next) {
        next = k->next;
        kernel_free(k);
    }
    for (uint32_t i = 0; i < m->data_count; i++) free(m->data[i].region.bytes);
    free(m->data);
    free(m->functions);
    free(m);
}
