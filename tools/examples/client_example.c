// SPDX-License-Identifier: Apache-2.0
/* The smallest program that uses libdemi: converts a model in memory, and writes it to a callback.
 * link_test.sh builds and runs it in each way that a program can be linked with demi. */
#include <demi/demi.h>

#include <stdio.h>
#include <string.h>

static const char model_text[] = "<ir_version: 8, opset_import: [\"\" : 17]>\n"
                                 "g (float[2,3] x) => (float[2,3] y)\n"
                                 "<float[3,3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1}>\n"
                                 "{\n"
                                 "    y = MatMul (x, w)\n"
                                 "}\n";

static bool count_bytes(void *user, const void *bytes, size_t size) {
    (void)bytes;
    *(size_t *)user += size;
    return true;
}

int main(void) {
    DemiError error = DEMI_ERROR_INIT;
    DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
    DemiModel *model = NULL;
    DemiReport *report = NULL;
    size_t written = 0;
    if (strcmp(demi_version(), DEMI_VERSION_STRING) != 0) return 2;
    if (demi_load_memory(model_text, strlen(model_text), NULL, &model, &error) == DEMI_OK &&
        demi_convert(model, &options, &report, &error) == DEMI_OK &&
        demi_save_callback(model, count_bytes, &written, NULL, &error) == DEMI_OK) {
        const DemiReportTotals *totals = demi_report_totals(report);
        printf("weights %llu -> %llu bytes, %llu casts, file %zu bytes\n",
               (unsigned long long)totals->bytes_before, (unsigned long long)totals->bytes_after,
               (unsigned long long)totals->casts_remaining, written);
    }
    if (error.status != DEMI_OK) fprintf(stderr, "%s\n", error.message);
    demi_report_free(report);
    demi_free(model);
    return (int)error.status;
}
