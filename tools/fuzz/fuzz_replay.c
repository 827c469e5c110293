// SPDX-License-Identifier: Apache-2.0
/* Runs a fuzzer's function over files, in builds without libFuzzer:
 *
 *     replay_X FILE|FOLDER …
 *
 * Every file whole and cut at eight places. A broken promise aborts; the name printed last before
 * that is the file. No files at all is a failure, so that a moved corpus is noticed. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

enum { CUTS = 8 };

static unsigned replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    struct stat info;
    if (!file || fstat(fileno(file), &info) != 0) return 0;
    size_t size = (size_t)info.st_size;
    fprintf(stderr, "%s\n", path);
    for (size_t cut = CUTS + 1; cut-- > 0;) {
        /* a block of its own each, so that AddressSanitizer sees reads past the end */
        size_t part = size * cut / CUTS;
        uint8_t *bytes = malloc(part ? part : 1);
        rewind(file);
        if (bytes && fread(bytes, 1, part, file) == part) LLVMFuzzerTestOneInput(bytes, part);
        free(bytes);
    }
    fclose(file);
    return 1;
}

static unsigned replay(const char *path) {
    DIR *folder = opendir(path);
    if (!folder) return replay_file(path);
    unsigned count = 0;
    char inner[4096];
    for (const struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        count += replay_file(inner);
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv) {
    unsigned count = 0;
    for (int i = 1; i < argc; i++) count += replay(argv[i]);
    printf("%u files\n", count);
    return count ? 0 : 1;
}
