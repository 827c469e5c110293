// SPDX-License-Identifier: Apache-2.0
/* The settings of a conversion as a table: rows of policy.def, which has what they mean. */
#ifndef DEMI_POLICY_SETTINGS_H
#define DEMI_POLICY_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "demi.h"

typedef enum SettingId {
#define CHOICE_SETTING(id, ...) SETTING_##id,
#define VALUE_SETTING(id, ...)  SETTING_##id,
#define LIST_SETTING(id, ...)   SETTING_##id,
#include "policy.def"
    SETTING_COUNT
} SettingId;

/* What a key holds; policy.c reads and writes each of them. */
typedef enum SettingKind {
    KIND_BASE,       /* a shipped policy's name; the option takes a file, too */
    KIND_TARGET,     /* one of the choices, which pipelines always say */
    KIND_OPSET,      /* "keep", "auto" or a number */
    KIND_CHOICE,     /* one of the choices */
    KIND_NUMBER,     /* 1 or more */
    KIND_COUNT,      /* 0 or more */
    KIND_FLAG,       /* true or false */
    KIND_CLASS,      /* operators that replace a list, or an object of those to add and remove */
    KIND_NAMES,      /* strings */
    KIND_OPERATORS,  /* the same; the option takes several, separated by commas */
    KIND_CONDITIONS, /* objects of operator, attribute and values */
    KIND_DTYPES,     /* an object of names and types */
    KIND_RANGES,     /* an object of names and magnitudes, or lists of two ends */
    KIND_IO,         /* a choice that pipelines always say, or an object of the two parts */
    KIND_PART,       /* strings; a key of the object that "io" may be */
} SettingKind;

/* Passes of the conversion that settings are options of. */
typedef enum SettingPass {
    SETTINGS_OF_DECLARE_OPS,
    SETTINGS_OF_UPGRADE_OPSET,
    SETTINGS_OF_INFER_DTYPES,
    SETTINGS_OF_INSERT_CASTS,
    SETTINGS_OF_INSERT_QDQ,
    SETTINGS_OF_CAST_PARAMS,
    SETTINGS_OF_EQUALIZE,
    SETTINGS_OF_NODES, /* all passes that choose nodes: node_choice.h */
    SETTING_PASS_COUNT
} SettingPass;

typedef struct SettingChoice {
    const char *word;
    const char *also; /* further words that the option takes, a space before each */
    const char *says;
} SettingChoice;

typedef struct Setting {
    const char *key, *says; /* of the policy file */
    SettingKind kind;
    int64_t otherwise;    /* what counts where nothing is said; 0: it depends (policy_text.c) */
    size_t member, count; /* in DemiConvertOptions: offsets of the value, and of a list's length */
    const SettingChoice *choices;    /* [i] is demi.h's constant i; ended by a row without word, as
                                        [0] is one; NULL: none */
    const char *option, *arg, *help; /* of `demi convert`; option NULL: none */
    const char *passes[SETTING_PASS_COUNT]; /* what it is called there, or NULL */
} Setting;

/* By SettingId. */
extern const Setting policy_settings[];

/* The choice of that word; `also`: or of one that only the option takes. 0 where there is none. */
int setting_choice(const Setting *setting, const char *word, bool also);

/* True where the value is a list of strings. */
bool setting_is_list(const Setting *setting);

/* Any other's value as options have it, but KIND_BASE's, which is text: 0 is "not said". */
int64_t setting_number(const Setting *setting, const DemiConvertOptions *options);
void setting_put_number(const Setting *setting, DemiConvertOptions *options, int64_t number);

/* A list as options have it; strings are borrowed. */
typedef struct SettingWords {
    const char *const *items;
    size_t count;
} SettingWords;
SettingWords setting_words(const Setting *setting, const DemiConvertOptions *options);
void setting_put_words(const Setting *setting, DemiConvertOptions *options, SettingWords words);

#endif
