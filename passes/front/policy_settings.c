// SPDX-License-Identifier: Apache-2.0
/* The table of settings, and settings as members of DemiConvertOptions; see policy_settings.h. */
#include "policy_settings.h"

#include <string.h>

#include "op_class.h"
#include "setting_names.h"

/* ---- the table ------------------------------------------------------------------------------- */

#define CHOICE(constant, word, also, says, ...) [constant] = {word, also, says},
#define CHOICES(id)                                                                                \
    static const SettingChoice choices_##id[] = {CHOICES_##id(CHOICE, CHOICE){NULL, NULL, NULL}};

CHOICES(BASE)
#define CHOICE_SETTING(id, ...) CHOICES(id)
#define VALUE_SETTING(...)
#define LIST_SETTING(...)
#include "policy.def"

/* A row and its members. */
#define ROW(id)                              [SETTING_##id]
#define KEY(name, of, text)                  .key = name, .kind = KIND_##of, .says = text
#define AT(field)                            offsetof(DemiConvertOptions, field)
#define OPTION(kind, name, words, all, text) .option = name, .arg = words, .help = text,
#define PASS(id, name)                       .passes[SETTINGS_OF_##id] = name,

#define CHOICE_SETTING(id, kind, key, field, fallback, says, option, passes)                       \
    ROW(id) = {KEY(key, kind, says), .member = AT(field), .otherwise = fallback,                   \
               .choices = choices_##id, option passes},
#define VALUE_SETTING(id, kind, key, field, fallback, says, option, passes)                        \
    ROW(id) = {KEY(key, kind, says), .member = AT(field), .otherwise = fallback, option passes},
#define LIST_SETTING(id, kind, key, field, number, says, option, passes)                           \
    ROW(id) = {KEY(key, kind, says), .member = AT(field), .count = AT(number), option passes},
#define IN_TYPES                          OPTION
#define IN_RESULT                         OPTION
#define IN_NODES                          OPTION
#define IN_RUNS                           OPTION
#define IN_BASE(...)                      .choices = choices_BASE, OPTION(__VA_ARGS__)
#define IN_POLICY                         OPTION
#define IN_READING                        OPTION
#define OF_DECLARE_OPS(kind, name, ...)   PASS(DECLARE_OPS, name)
#define OF_UPGRADE_OPSET(kind, name, ...) PASS(UPGRADE_OPSET, name)
#define OF_INFER_DTYPES(kind, name, ...)  PASS(INFER_DTYPES, name)
#define OF_INSERT_CASTS(kind, name, ...)  PASS(INSERT_CASTS, name)
#define OF_INSERT_QDQ(kind, name, ...)    PASS(INSERT_QDQ, name)
#define OF_NODES(kind, name, ...)         PASS(NODES, name)
#define OF_CAST_PARAMS(kind, name, ...)   PASS(CAST_PARAMS, name)
#define OF_EQUALIZE(kind, name, ...)      PASS(EQUALIZE, name)
const Setting policy_settings[] = {
#include "policy.def"
};

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_one_of(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; *at;) {
        at += strspn(at, " ");
        size_t size = strcspn(at, " ");
        if (size == length && size && memcmp(at, word, size) == 0) return true;
        at += size;
    }
    return false;
}

int setting_choice(const Setting *setting, const char *word, bool also) {
    for (int i = 1; setting->choices && setting->choices[i].word; i++) {
        const SettingChoice *choice = &setting->choices[i];
        if (strcmp(choice->word, word) == 0 || (also && is_one_of(choice->also, word))) return i;
    }
    return 0;
}

/* ---- members of options ---------------------------------------------------------------------- */

bool setting_is_list(const Setting *setting) {
    return setting->count > 0;
}

int64_t setting_number(const Setting *setting, const DemiConvertOptions *options) {
    const char *at = (const char *)options + setting->member;
    int choice;
    int64_t number;
    bool flag;
    switch (setting->kind) {
    case KIND_TARGET:
    case KIND_CHOICE:
    case KIND_IO: memcpy(&choice, at, sizeof choice); return choice;
    case KIND_OPSET:
    case KIND_COUNT:
    case KIND_NUMBER: memcpy(&number, at, sizeof number); return number;
    case KIND_FLAG: memcpy(&flag, at, sizeof flag); return flag;
    case KIND_BASE:
    case KIND_CLASS:
    case KIND_NAMES:
    case KIND_OPERATORS:
    case KIND_CONDITIONS:
    case KIND_DTYPES:
    case KIND_RANGES:
    case KIND_PART: break;
    }
    return 0;
}

void setting_put_number(const Setting *setting, DemiConvertOptions *options, int64_t number) {
    char *at = (char *)options + setting->member;
    int choice = (int)number;
    bool flag = number != 0;
    switch (setting->kind) {
    case KIND_TARGET:
    case KIND_CHOICE:
    case KIND_IO: memcpy(at, &choice, sizeof choice); return;
    case KIND_OPSET:
    case KIND_COUNT:
    case KIND_NUMBER: memcpy(at, &number, sizeof number); return;
    case KIND_FLAG: memcpy(at, &flag, sizeof flag); return;
    case KIND_BASE:
    case KIND_CLASS:
    case KIND_NAMES:
    case KIND_OPERATORS:
    case KIND_CONDITIONS:
    case KIND_DTYPES:
    case KIND_RANGES:
    case KIND_PART: return;
    }
}

SettingWords setting_words(const Setting *setting, const DemiConvertOptions *options) {
    SettingWords words;
    memcpy(&words.items, (const char *)options + setting->member, sizeof words.items);
    memcpy(&words.count, (const char *)options + setting->count, sizeof words.count);
    return words;
}

void setting_put_words(const Setting *setting, DemiConvertOptions *options, SettingWords words) {
    memcpy((char *)options + setting->member, &words.items, sizeof words.items);
    memcpy((char *)options + setting->count, &words.count, sizeof words.count);
}
