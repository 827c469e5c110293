// SPDX-License-Identifier: Apache-2.0
/* Does what `demi opt` does, with libdemi: loads a model, runs a pipeline with passes from plug-ins
 * on it, and saves it.
 *     client_pipeline IN OUT PIPELINE [PLUGIN.so …]
 * link_test.sh builds and runs it. */
#include <demi/demi.h>

#include <stdio.h>

static bool to_output(void *user, const void *bytes, size_t size) {
    (void)user;
    return fwrite(bytes, 1, size, stdout) == size;
}

static void print_passes(const DemiReport *report) {
    const DemiReportRow *row;
    for (size_t i = 0; (row = demi_report_row(report, DEMI_REPORT_PASSES, i)); i++)
        printf("%s: %llu rewrites\n", row->name, (unsigned long long)row->after);
}

int main(int argc, char **argv) {
    DemiError error = DEMI_ERROR_INIT;
    DemiRunOptions options = DEMI_RUN_OPTIONS_INIT;
    DemiPasses *passes = NULL;
    DemiModel *model = NULL;
    DemiReport *report = NULL;
    if (argc < 4) return DEMI_ERR_USAGE;
    /* `error` keeps the first error, and each step runs only if there is none. */
    demi_passes_new(&passes, &error);
    for (int i = 4; i < argc && error.status == DEMI_OK; i++)
        demi_passes_load(passes, argv[i], &error);
    options.passes = passes;
    options.text = to_output;
    if (error.status == DEMI_OK && demi_load_file(argv[1], NULL, &model, &error) == DEMI_OK &&
        demi_run_pipeline(model, argv[3], &options, &report, &error) == DEMI_OK)
        demi_save_file(model, argv[2], NULL, &error);
    if (error.status == DEMI_OK)
        print_passes(report);
    else
        fprintf(stderr, "%s%s%s\n", error.message, error.hint[0] ? "; hint: " : "", error.hint);
    demi_report_free(report);
    demi_free(model);
    demi_passes_free(passes);
    return (int)error.status;
}
