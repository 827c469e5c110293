// SPDX-License-Identifier: Apache-2.0
#include "node_note.h"

const char *note_kind_name(NoteKind kind) {
    switch (kind) {
    case NOTE_NONE: return "";
    case NOTE_LOW: return "low";
    case NOTE_NO_FLOAT: return "no float";
    case NOTE_CONSTANT: return "constant";
    case NOTE_POLICY: return "policy";
    case NOTE_EXCLUDED: return "excluded";
    case NOTE_ILLEGAL: return "illegal";
    case NOTE_VALUE: return "value";
    case NOTE_UNKNOWN: return "unknown";
    case NOTE_FIXED: return "fixed";
    case NOTE_MOVED: return "moved";
    case NOTE_FOLLOWS: return "follows";
    case NOTE_READS: return "reads";
    case NOTE_TIED: return "tied";
    case NOTE_CHEAPER: return "cheaper";
    }
    return "";
}

static const char *cheaper_text(const NodeNote *note, Arena *arena) {
    if (note->cost <= 0) return "left in fp32: no 16-bit operator gains by its change";
    return arena_printf(arena, "cheaper in fp32: in 16 bit it would cost %lld bytes more",
                        (long long)note->cost);
}

const char *node_note_text(const NodeNote *note, Arena *arena) {
    switch (note->kind) {
    case NOTE_NONE:
    case NOTE_LOW:
    case NOTE_NO_FLOAT:
    case NOTE_CONSTANT:
    case NOTE_POLICY:
    case NOTE_EXCLUDED:
    case NOTE_ILLEGAL:
    case NOTE_VALUE:
    case NOTE_UNKNOWN:
    case NOTE_MOVED:
    case NOTE_FIXED: break;
    case NOTE_FOLLOWS: return arena_printf(arena, "follows '%s', which is fp32", note->subject);
    case NOTE_READS: return arena_printf(arena, "reads '%s', which is fp32", note->subject);
    case NOTE_TIED:
        if (!note->subject) return note->reason;
        return arena_printf(arena, "tied to '%s': %s", note->subject, note->reason);
    case NOTE_CHEAPER: return cheaper_text(note, arena);
    }
    return note->reason ? note->reason : "";
}

const char *node_note_group(const NodeNote *note) {
    switch (note->kind) {
    case NOTE_NONE:
    case NOTE_LOW:
    case NOTE_NO_FLOAT:
    case NOTE_CONSTANT:
    case NOTE_POLICY:
    case NOTE_EXCLUDED:
    case NOTE_ILLEGAL:
    case NOTE_VALUE:
    case NOTE_UNKNOWN:
    case NOTE_MOVED:
    case NOTE_FIXED: break;
    case NOTE_FOLLOWS: return "follows an operand that is fp32";
    case NOTE_READS: return "reads an operand that is fp32";
    case NOTE_TIED: return "tied to another node, which is fp32";
    case NOTE_CHEAPER: return note->cost > 0 ? "cheaper in fp32" : node_note_text(note, NULL);
    }
    return note->reason ? note->reason : "";
}
