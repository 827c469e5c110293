# SPDX-License-Identifier: Apache-2.0
"""The command: options, exit codes, reports, and files that appear all or not at all."""

from mutants import Mutant

COMMAND, FILES = "tools/command/", "rewrite/base/"

MUTANTS = (
    Mutant("the beginning of a choice is taken for it", COMMAND + "options.c",
           "if (word == length && memcmp(p, value, length) == 0) return at;",
           "if (word >= length && memcmp(p, value, length) == 0) return at;", "cli"),
    Mutant("-o=FILE writes '=FILE'", COMMAND + "options.c",
           "const char *attached = word[2] == '=' ? word + 3 : word + 2;",
           "const char *attached = word + 2;", "cli"),
    Mutant("'--json -' leaves its '-' behind", COMMAND + "options.c",
           "if (!next || (next[0] == '-' && next[1]))", "if (!next || next[0] == '-')", "cli"),
    Mutant("'=' in a file's name ends the input's name", COMMAND + "outputs.c",
           "sign; sign = strchr(sign + 1, '='))", "sign; sign = NULL)",
           "outputs"),
    Mutant("simplify may not write over its input", COMMAND + "outputs.c",
           '{"convert", "simplify", "opt"};', '{"convert", "opt"};', "outputs cli corpus*"),
    Mutant("'0 more' differences are told", COMMAND + "cmd_diff.c",
           "if (job->limit && job->count > job->limit)", "if (job->limit && job->count >= job->limit)",
           "cli demi_diff_test"),
    Mutant("a size that is too large wraps", COMMAND + "run_options.c",
           "&& !errno && value &&\n           *bytes >> shift == value;", "&& !errno && value;", "run cli"),
    Mutant("a report may be written over a text model", COMMAND + "report_json.c",
           'return dot && (strcasecmp(dot, ".onnx") == 0 || strcasecmp(dot, ".onnxtxt") == 0);',
           'return dot && strcasecmp(dot, ".onnx") == 0;', "cli outputs"),
    Mutant("a search that was stopped ends with 10", COMMAND + "cmd_search.c",
           "case DEMI_FOUND_SO_FAR: return 11;", "case DEMI_FOUND_SO_FAR: return 10;", "search"),
    Mutant("a file whose folder could not be synced stays", FILES + "outfile_place.c",
           "for (size_t j = i + 1; j-- > 0;) take_back(files[j], err);",
           "for (size_t j = i; j-- > 0;) take_back(files[j], err);", "outputs outfile_test"),
    Mutant("a signal may come between two files", FILES + "outfile_place.c",
           "        live_hold_signals();\n        ok = place_all(files, count, named == 1, err);",
           "        ok = place_all(files, count, named == 1, err);\n        live_hold_signals();", "outputs"),
    Mutant("temporary files of other processes are taken away", FILES + "outfile_place.c",
           "open_file.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0 &&",
           "open_file.st_uid == geteuid() &&", "outfile_test outputs"),
    Mutant("files have their names before they are on disk", FILES + "outfile_place.c",
           "    if (!outfile_sync(file, err)) return false;\n    /* Keeps the lock", "    /* Keeps the lock",
           "outfile_test outputs"),
)
