// SPDX-License-Identifier: Apache-2.0
/* The words for each kind of note stand in one switch. A kind without a group's words is said by
 * the note's own reason, in the sentence and in the group. */
#include "node_note.h"

typedef struct NoteWords {
    const char *name;
    const char *group; /* NULL: the note's reason */
} NoteWords;

static NoteWords words_of(NoteKind kind) {
    switch (kind) {
    case NOTE_NONE: break;
    case NOTE_LOW: return (NoteWords){"low", NULL};
    case NOTE_NO_FLOAT: return (NoteWords){"no float", NULL};
    case NOTE_CONSTANT: return (NoteWords){"constant", NULL};
    case NOTE_POLICY: return (NoteWords){"policy", NULL};
    case NOTE_EXCLUDED: return (NoteWords){"excluded", NULL};
    case NOTE_ILLEGAL: return (NoteWords){"illegal", NULL};
    case NOTE_VALUE: return (NoteWords){"value", NULL};
    case NOTE_PRECISE: return (NoteWords){"precise", NULL};
    case NOTE_UNKNOWN: return (NoteWords){"unknown", NULL};
    case NOTE_FIXED: return (NoteWords){"fixed", NULL};
    case NOTE_MOVED: return (NoteWords){"moved", NULL};
    case NOTE_FOLLOWS: return (NoteWords){"follows", "follows an operand in float32"};
    case NOTE_READS: return (NoteWords){"reads", "reads an operand in float32"};
    case NOTE_TIED: return (NoteWords){"tied", "tied to another node, which is in float32"};
    case NOTE_QUANTIZED: return (NoteWords){"quantized", NULL};
    case NOTE_CHEAPER: return (NoteWords){"cheaper", "cheaper in float32"};
    }
    return (NoteWords){"", NULL};
}

static const char no_gain[] = "kept in float32: converting it would not help any 16-bit operator";

/* What the note itself says. */
static const char *own_reason(const NodeNote *note) {
    return note->reason ? note->reason : "";
}

const char *note_kind_name(NoteKind kind) {
    return words_of(kind).name;
}

const char *node_note_text(const NodeNote *note, Arena *arena) {
    NoteWords words = words_of(note->kind);
    if (!words.group) return own_reason(note);
    if (note->kind == NOTE_CHEAPER) {
        if (note->cost <= 0) return no_gain;
        return arena_printf(arena, "cheaper in float32: in 16-bit it would cost %lld bytes more",
                            (long long)note->cost);
    }
    if (note->kind == NOTE_TIED) {
        if (!note->subject) return own_reason(note);
        return arena_printf(arena, "tied to '%s': %s", note->subject, note->reason);
    }
    return arena_printf(arena, "%s '%s', which is in float32", words.name, note->subject);
}

const char *node_note_group(const NodeNote *note) {
    NoteWords words = words_of(note->kind);
    if (note->kind == NOTE_CHEAPER && note->cost <= 0) return no_gain;
    return words.group ? words.group : own_reason(note);
}
