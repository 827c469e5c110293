// SPDX-License-Identifier: Apache-2.0
/* What policies and pipelines are: demi-policy(5) and demi-pipeline(7), from the tables of settings
 * and passes; see help.h. */
#include "help.h"

#include <stdarg.h>
#include <string.h>

#include "help_page.h"
#include "policy_settings.h"

/* An entry is no longer: its parts are rows of our own tables. */
enum { MOST_TEXT = 2048 };

typedef struct Text {
    char text[MOST_TEXT];
    size_t length;
} Text;

static void add(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(Text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(text->text + text->length, MOST_TEXT - text->length, format, args);
    va_end(args);
    size_t left = MOST_TEXT - 1 - text->length;
    text->length += (size_t)wrote < left ? (size_t)wrote : left;
}

/* ---- policies -------------------------------------------------------------------------------- */

/* The value that a key takes: "a"|"b", ["PATTERN", ...]. */
static void add_form(Text *text, const Setting *setting) {
    int length = setting->arg ? (int)strcspn(setting->arg, ",") : 0;
    switch (setting->kind) {
    case KIND_BASE:
    case KIND_TARGET:
    case KIND_CHOICE:
    case KIND_IO:
        for (int i = 1; setting->choices[i].word; i++)
            add(text, "%s\"%s\"", i > 1 ? "|" : "", setting->choices[i].word);
        return;
    case KIND_OPSET: add(text, "\"keep\"|\"auto\"|N"); return;
    case KIND_COUNT:
    case KIND_NUMBER: add(text, "N"); return;
    case KIND_FLAG: add(text, "true|false"); return;
    case KIND_CLASS: add(text, "[\"OP\", ...]|{\"add\": [...], \"remove\": [...]}"); return;
    case KIND_NAMES:
    case KIND_OPERATORS: add(text, "[\"%.*s\", ...]", length, setting->arg); return;
    case KIND_CONDITIONS:
        add(text, "[{\"operator\": \"OP\", \"attribute\": \"ATTR\", \"values\": [...]}, ...]");
        return;
    case KIND_DTYPES: add(text, "{\"NAME\": \"DTYPE\", ...}"); return;
    case KIND_RANGES:
        add(text, "{\"NAME\": MAX|[MIN, MAX]|[MIN, MAX, AXIS, [MEAN, ...], [ERROR, ...]], ...}");
        return;
    case KIND_PART: add(text, "{\"%s\": [\"NAME\", ...]}", setting->key); return;
    }
}

static void explain_key(Page *page, const Setting *setting) {
    Text head = {.length = 0}, text = {.length = 0};
    bool part = setting->kind == KIND_PART;
    add(&head, "\"%s\": ", part ? policy_settings[SETTING_IO].key : setting->key);
    add_form(&head, setting);
    add(&text, "%c%s.", setting->says[0] - 'a' + 'A', setting->says + 1);
    for (int i = 1; setting->choices && setting->choices[i].word; i++)
        add(&text, " %s%s: %s.", setting->choices[i].word,
            i == setting->otherwise ? " (default)" : "", setting->choices[i].says);
    if (setting->option) add(&text, " Option --%s.", setting->option);
    page_entry(page, head.text, text.text);
}

static const char policy_about[] =
    "A policy is a JSON object with everything that controls a conversion. 'demi convert --policy "
    "FILE', 'demi check --policy FILE', and the C function demi_convert accept policies. All keys "
    "are optional; an unknown key is an error. Command-line options add to its lists and override "
    "its choices.\n\n'demi convert --print-policy' prints the policy that its options amount to; "
    "reading it back has the same effect. An operator in two lists is an error that names it, and "
    "so is an unknown operator or attribute.\n\nA PATTERN is a node's name, a glob, name:NAME, "
    "re:REGEX, out:VALUE, or from:A,to:B, as --keep in 'demi help convert' explains. An OP may be "
    "DOMAIN.OPERATOR.";

static const char policy_example[] =
    "{\n"
    "  \"policy\": \"float16\",\n"
    "  \"low\": {\"add\": [\"Softmax\"]},\n"
    "  \"fp32\": {\"add\": [\"Relu\"], \"remove\": [\"Reciprocal\"]},\n"
    "  \"conditional\": [{\"operator\": \"Resize\", \"attribute\": \"mode\", "
    "\"values\": [\"cubic\"]}],\n"
    "  \"keep\": [\"out:y\"],\n"
    "  \"overflow\": \"clamp\"\n"
    "}\n";

static void print_policy(FILE *out, bool roff) {
    Page page = {.out = out, .roff = roff};
    page_title(&page, "demi-policy", 5, "settings of a conversion as a JSON file");
    page_section(&page, "Description");
    page_text(&page, policy_about);
    page_section(&page, "Keys");
    for (SettingId id = 0; id < SETTING_COUNT; id++) explain_key(&page, &policy_settings[id]);
    page_section(&page, "Examples");
    page_lines(&page, policy_example);
    if (!roff) return;
    page_section(&page, "See also");
    fputs(".BR demi\\-convert (1),\n.BR demi\\-check (1),\n.BR demi\\-pipeline (7)\n", out);
}

/* ---- pipelines ------------------------------------------------------------------------------- */

/* An option that states no default is zero: false, the first choice, nothing. */
const char *help_pass_default(const DemiPassOption *option, int *length) {
    size_t first = strcspn(option->takes, "|");
    const char *otherwise = option->otherwise;
    bool choice = option->takes[first] != '\0';
    if (!otherwise && strcmp(option->takes, "true|false") == 0) otherwise = "false";
    *length = (int)(otherwise ? strlen(otherwise) : first);
    return otherwise ? otherwise : choice ? option->takes : NULL;
}

static void explain_pass(Page *page, size_t pass) {
    DemiPassOption option = DEMI_PASS_OPTION_INIT;
    page_subsection(page, demi_pass_name(NULL, pass));
    Text about = {.length = 0};
    const char *summary = demi_pass_summary(NULL, pass);
    add(&about, "%c%s.", summary[0] - 'a' + 'A', summary + 1);
    page_text(page, about.text);
    for (size_t j = 0; demi_pass_option(NULL, pass, j, &option); j++) {
        Text head = {.length = 0}, text = {.length = 0};
        int length;
        const char *otherwise = help_pass_default(&option, &length);
        add(&head, "%s=%s", option.name, option.takes);
        add(&text, "%s", option.help ? option.help : "");
        if (otherwise) add(&text, " (default %.*s)", length, otherwise);
        page_entry(page, head.text, text.text);
    }
}

static const char pipeline_about[] =
    "A pipeline is a list of passes, in the order in which they run on a model. 'demi opt --passes "
    "PIPELINE' runs a pipeline. 'demi convert' is one, too; 'demi convert --print-pipeline' prints "
    "it, and --before and --after add passes. A value may be a JSON string in double quotes. "
    "Spaces between words have no meaning.\n\nA pass that needs types or shapes must come after a "
    "pass that infers them; demi checks this before it runs anything. --load-pass FILE.so adds "
    "your own passes.";

static const char pipeline_examples[] =
    "demi convert --print-pipeline --to float16\n"
    "demi opt model.onnx -o out.onnx \\\n"
    "    --passes 'infer-dtypes,insert-casts{to=float16,keep=[\"/conv\"]},"
    "fuse-casts'\n";

static void print_pipeline(FILE *out, bool roff) {
    Page page = {.out = out, .roff = roff};
    page_title(&page, "demi-pipeline", 7, "passes, and the syntax of pipelines");
    page_section(&page, "Synopsis");
    page_text(&page, "PASS,PASS{OPTION=VALUE,OPTION=[VALUE,VALUE]},...");
    page_section(&page, "Description");
    page_text(&page, pipeline_about);
    page_section(&page, "Passes");
    for (size_t i = 0; i < demi_pass_count(NULL); i++) explain_pass(&page, i);
    page_section(&page, "Examples");
    page_lines(&page, pipeline_examples);
    if (!roff) return;
    page_section(&page, "See also");
    fputs(".BR demi\\-opt (1),\n.BR demi\\-convert (1),\n.BR demi\\-policy (5)\n", out);
}

const HelpTopic help_topics[] = {
    {"policy", print_policy},
    {"pipeline", print_pipeline},
    {NULL, NULL},
};
