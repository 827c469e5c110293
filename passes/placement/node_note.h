// SPDX-License-Identifier: Apache-2.0
/* The words of a node's note (graph.h): one reason, as a sentence and as the group it is counted
 * in. */
#ifndef DEMI_NODE_NOTE_H
#define DEMI_NODE_NOTE_H

#include "graph.h"

/* The whole reason, in `arena` or static. "" where there is none. */
const char *node_note_text(const NodeNote *note, Arena *arena);

/* The reason without what is particular to the node: the same text for all nodes that are counted
 * together. As long-lived as the note. */
const char *node_note_group(const NodeNote *note);

/* Which sort of reason it is, a word for scripts: "class", "tied", … */
const char *note_kind_name(NoteKind kind);

#endif
