// SPDX-License-Identifier: Apache-2.0
/* The before/after table and its relatives as text; see report_out.h. Long lists are cut so that
 * the whole table stays within 30 lines; what is cut is said, and --json has all of it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "report_out.h"
#include "escaped.h"
#include "convert_verify.h"

/* Lines of the table: 2 of title, 1 + 6 operators, 1 + 4 weights, 2 of casts and values, 1 + 5
 * reasons, 4 inputs and outputs, 1 time, 3 advice: 30. */
enum { MOST_OPERATORS = 6, MOST_WEIGHTS = 4, MOST_REASONS = 5, MOST_IO = 2, MOST_ADVICE = 3 };
enum { NAME_WIDTH = 26, NUMBER_WIDTH = 12, MOST_REASON_TEXT = 100 };

/* "10.9 MB": decimal units, as file managers show them. */
static const char *size_text(uint64_t bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000;
        unit++;
    }
    if (unit == 0)
        snprintf(text, size, "%" PRIu64 " B", bytes);
    else
        snprintf(text, size, value < 10 ? "%.2f %s" : "%.1f %s", value, units[unit]);
    return text;
}

void report_put(FILE *out, const char *text, size_t length) {
    while (length) {
        char shown[SHOWN_MOST];
        size_t size, taken = escaped_take(text, length, shown, &size);
        fwrite(shown, 1, size, out);
        text += taken;
        length -= taken;
    }
}

void report_puts(FILE *out, const char *text) {
    report_put(out, text, strlen(text));
}

/* Prints a name from a model within `width` columns; long ones are cut in the middle, where names
 * differ least. */
static void print_name(FILE *out, const char *name, int width, int indent) {
    size_t length = strlen(name), room = (size_t)(width - indent);
    fprintf(out, "%*s", indent, "");
    if (length <= room) {
        report_put(out, name, length);
        fprintf(out, "%*s", (int)(room - length), "");
        return;
    }
    size_t head = escaped_cut(name, length, (room - 3) / 2);
    size_t tail = escaped_cut(name, length, length - (room - 3 - head));
    report_put(out, name, head);
    fputs("...", out);
    report_put(out, name + tail, length - tail);
}

static void print_counts(FILE *out, const char *name, int indent, const DemiReportRow *row) {
    print_name(out, name, NAME_WIDTH, indent);
    fprintf(out, "%*" PRIu64 "%*" PRIu64 "\n", NUMBER_WIDTH, row->before, NUMBER_WIDTH, row->after);
}

static void print_sizes(FILE *out, const char *name, int indent, const DemiReportRow *row) {
    char before[32], after[32];
    print_name(out, name, NAME_WIDTH, indent);
    fprintf(out, "%*s%*s\n", NUMBER_WIDTH, size_text(row->before, before, sizeof before),
            NUMBER_WIDTH, size_text(row->after, after, sizeof after));
}

typedef void (*RowPrinter)(FILE *out, const char *name, int indent, const DemiReportRow *row);

/* The list's first rows, and the sum of the others as one more. */
static void print_list(const DemiReport *report, DemiReportList list, size_t most, FILE *out) {
    RowPrinter print = list == DEMI_REPORT_WEIGHTS ? print_sizes : print_counts;
    size_t count = demi_report_row_count(report, list);
    size_t shown = count <= most ? count : most - 1;
    for (size_t i = 0; i < shown; i++) {
        const DemiReportRow *row = demi_report_row(report, list, i);
        print(out, row->name, 2, row);
    }
    if (shown == count) return;
    char name[40];
    DemiReportRow others = {0};
    for (size_t i = shown; i < count; i++) {
        others.before += demi_report_row(report, list, i)->before;
        others.after += demi_report_row(report, list, i)->after;
    }
    snprintf(name, sizeof name, "(%zu others)", count - shown);
    print(out, name, 2, &others);
}

static void print_casts(const DemiReportTotals *totals, FILE *out) {
    print_name(out, "casts at run time", NAME_WIDTH, 0);
    fprintf(out, "%*" PRIu64, 2 * NUMBER_WIDTH, totals->casts_remaining);
    if (totals->casts_added)
        fprintf(out, "  (of %" PRIu64 " added, %" PRIu64 " went into constants, %" PRIu64 " fused)",
                totals->casts_added, totals->casts_removed, totals->casts_fused);
    fputc('\n', out);
}

/* "45,019". */
static const char *grouped(uint64_t number, char text[32]) {
    char digits[24];
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, number), at = 0;
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

/* What became of the elements of constants that were converted. */
static void print_values(const DemiReport *report, FILE *out) {
    const DemiReportTotals *totals = demi_report_totals(report);
    char overflow[32], zero[32], small[32], all[32];
    uint64_t count = 0;
    for (size_t i = 0; i < demi_report_tensor_count(report); i++)
        count += demi_report_tensor(report, i)->count;
    if (!totals->overflow && !totals->underflow && !totals->subnormal) return;
    print_name(out, "constant elements", NAME_WIDTH, 0);
    fprintf(out, "  %s overflow; %s of %s round to 0, %s to subnormals\n",
            grouped(totals->overflow, overflow), grouped(totals->underflow, zero),
            grouped(count, all), grouped(totals->subnormal, small));
}

static void print_reasons(const DemiReport *report, FILE *out) {
    size_t count = demi_report_row_count(report, DEMI_REPORT_REASONS);
    uint64_t nodes = 0, rest = 0;
    for (size_t i = 0; i < count; i++)
        nodes += demi_report_row(report, DEMI_REPORT_REASONS, i)->after;
    if (nodes == 0) return;
    print_name(out, "nodes kept in float32", NAME_WIDTH, 0);
    fprintf(out, "%*" PRIu64 "\n", 2 * NUMBER_WIDTH, nodes);
    size_t shown = count <= MOST_REASONS ? count : MOST_REASONS - 1;
    for (size_t i = 0; i < count; i++) {
        const DemiReportRow *row = demi_report_row(report, DEMI_REPORT_REASONS, i);
        if (i < shown) {
            size_t length = strlen(row->name);
            fprintf(out, "%8" PRIu64 "  ", row->after);
            report_put(out, row->name, escaped_cut(row->name, length, MOST_REASON_TEXT));
            fputc('\n', out);
        } else {
            rest += row->after;
        }
    }
    if (rest)
        fprintf(out, "%8" PRIu64 "  (%zu other reasons; --json names them)\n", rest, count - shown);
}

static void print_type_change(FILE *out, const DemiReportRow *row) {
    const char *before = row->text_before[0] ? row->text_before : "-";
    const char *after = row->text_after[0] ? row->text_after : "-";
    print_name(out, row->name, NAME_WIDTH, 2);
    fputs("  ", out);
    report_put(out, before, strlen(before));
    if (strcmp(before, after) == 0) return;
    fputs(" -> ", out);
    report_put(out, after, strlen(after));
}

/* Each line says whether it is an input or an output; the last one also how many are not shown. */
static void print_io(const DemiReport *report, DemiReportList list, size_t most, FILE *out) {
    const char *kind = list == DEMI_REPORT_INPUTS ? "input" : "output";
    size_t count = demi_report_row_count(report, list);
    for (size_t i = 0; i < count && i < most; i++) {
        fprintf(out, "%-7s", kind);
        print_type_change(out, demi_report_row(report, list, i));
        if (i + 1 == most && i + 1 < count) fprintf(out, "  (+%zu %ss)", count - most, kind);
        fputc('\n', out);
    }
}

static void print_notes(const DemiReport *report, DemiReportList list, bool color, FILE *out) {
    size_t count = demi_report_row_count(report, list);
    size_t most = list == DEMI_REPORT_ADVICE ? MOST_ADVICE : count;
    for (size_t i = 0; i < count && i < most; i++) {
        fprintf(out, "%snote:%s ", console_paint(color, PAINT_NOTE),
                console_paint(color, PAINT_PLAIN));
        report_puts(out, demi_report_row(report, list, i)->name);
        fputc('\n', out);
    }
}

void report_print_remarks(const DemiReport *report, FILE *out) {
    print_notes(report, DEMI_REPORT_REMARKS, false, out);
}

void report_print(const DemiReport *report, const ReportTitle *title, FILE *out) {
    const DemiReportTotals *totals = demi_report_totals(report);
    DemiReportRow nodes = {.before = totals->nodes_before, .after = totals->nodes_after};
    DemiReportRow bytes = {.before = totals->bytes_before, .after = totals->bytes_after};
    report_puts(out, title->input);
    fputs(" -> ", out);
    report_puts(out, title->output ? title->output : "(not written)");
    fputc('\n', out);
    fprintf(out, "%s%*s%*s%s\n", console_paint(title->color, PAINT_HEAD), NAME_WIDTH + NUMBER_WIDTH,
            "before", NUMBER_WIDTH, "after", console_paint(title->color, PAINT_PLAIN));
    print_counts(out, "nodes", 0, &nodes);
    print_list(report, DEMI_REPORT_OPERATORS, MOST_OPERATORS, out);
    print_sizes(out, "weights", 0, &bytes);
    print_list(report, DEMI_REPORT_WEIGHTS, MOST_WEIGHTS, out);
    print_casts(totals, out);
    print_values(report, out);
    print_reasons(report, out);
    print_io(report, DEMI_REPORT_INPUTS, MOST_IO, out);
    print_io(report, DEMI_REPORT_OUTPUTS, MOST_IO, out);
    if (title->verified) verify_print(title->verified, out);
    fprintf(out, "time    %.3f s, of which passes %.3f s\n", title->seconds, totals->seconds);
    print_notes(report, DEMI_REPORT_ADVICE, title->color, out);
    if (title->verified) verify_advise(title->verified, totals->casts_added > 0, out);
}

/* ---- one model ------------------------------------------------------------------------------- */

static void print_single(const DemiReport *report, DemiReportList list, FILE *out) {
    size_t count = demi_report_row_count(report, list);
    for (size_t i = 0; i < count; i++) {
        const DemiReportRow *row = demi_report_row(report, list, i);
        char size[32];
        print_name(out, row->name, NAME_WIDTH, 2);
        if (list == DEMI_REPORT_WEIGHTS)
            fprintf(out, "%*s\n", NUMBER_WIDTH, size_text(row->after, size, sizeof size));
        else
            fprintf(out, "%*" PRIu64 "\n", NUMBER_WIDTH, row->after);
    }
}

static void print_versions(const DemiReport *report, FILE *out) {
    size_t count = demi_report_row_count(report, DEMI_REPORT_OPSETS);
    fprintf(out, "IR version  %" PRId64 "\nopsets     ", demi_report_totals(report)->ir_after);
    for (size_t i = 0; i < count; i++) {
        const DemiReportRow *row = demi_report_row(report, DEMI_REPORT_OPSETS, i);
        fputs(i ? ", " : " ", out);
        report_puts(out, row->name);
        fprintf(out, " %" PRIu64, row->after);
    }
    fputc('\n', out);
}

/* What a training reads and gives, and how much it updates. */
static void print_training(const DemiReport *report, FILE *out) {
    const size_t count = demi_report_row_count(report, DEMI_REPORT_TRAINING);
    size_t updates = 0;
    for (size_t i = 0; i < count; i++) {
        const DemiReportRow *row = demi_report_row(report, DEMI_REPORT_TRAINING, i);
        updates += row->text_before[0] == 'u';
        if (row->text_before[0] == 'u') continue;
        fprintf(out, "training %-7s", row->text_before);
        print_name(out, row->name, NAME_WIDTH - 9, 2);
        fputs("  ", out);
        report_puts(out, row->text_after);
        fputc('\n', out);
    }
    if (count)
        fprintf(out, "training updates %zu initializer%s\n", updates, updates == 1 ? "" : "s");
}

void report_print_stats(const DemiReport *report, const char *name, FILE *out) {
    char size[32];
    const DemiReportTotals *totals = demi_report_totals(report);
    report_puts(out, name);
    fputc('\n', out);
    print_versions(report, out);
    print_io(report, DEMI_REPORT_INPUTS, SIZE_MAX, out);
    print_io(report, DEMI_REPORT_OUTPUTS, SIZE_MAX, out);
    print_training(report, out);
    print_name(out, "nodes", NAME_WIDTH, 0);
    fprintf(out, "%*" PRIu64 "\n", NUMBER_WIDTH, totals->nodes_after);
    print_single(report, DEMI_REPORT_OPERATORS, out);
    print_name(out, "weights", NAME_WIDTH, 0);
    fprintf(out, "%*s\n", NUMBER_WIDTH, size_text(totals->bytes_after, size, sizeof size));
    print_single(report, DEMI_REPORT_WEIGHTS, out);
    if (!totals->casts_remaining) return;
    print_name(out, "casts at run time", NAME_WIDTH, 0);
    fprintf(out, "%*" PRIu64 "\n", NUMBER_WIDTH, totals->casts_remaining);
}

void report_print_times(const DemiReport *report, FILE *out) {
    size_t count = demi_report_row_count(report, DEMI_REPORT_PASSES);
    for (size_t i = 0; i < count; i++) {
        const DemiReportRow *row = demi_report_row(report, DEMI_REPORT_PASSES, i);
        fprintf(out, "%-20s %9.3f ms %12" PRIu64 " rewrites\n", row->name, row->seconds * 1e3,
                row->after);
    }
}
