/*
 * trace/model/strtab.h - interned text: names, categories, argument keys, attribute values
 *
 * An id has 32 bits and is valid while the table exists. Equal text has one id, and 0 is the empty
 * text. Memory is bounded: at most `max_bytes` of text, with 64 bytes for each entry. When it is
 * reached, new text gets MRD_SID_FULL ("(too many distinct names)") and is counted. One input can
 * have a lower limit (mrd_strtab_allow), which leaves room for other inputs and for notes about it.
 * Values that hardly repeat must not be interned (MRD_ARG_TEXT). Threads: one writer. Concurrent
 * readers are allowed only while no text is added.
 */
#ifndef MRD_TRACE_STRTAB_H
#define MRD_TRACE_STRTAB_H

#include "base/buf.h"

typedef uint32_t mrd_sid;

#define MRD_SID_EMPTY 0u
#define MRD_SID_FULL  1u

typedef struct mrd_strtab mrd_strtab;

/* Creates a table. max_bytes 0 means 64 MiB. Returns NULL if out of memory. */
mrd_strtab *mrd_strtab_new(size_t max_bytes);
void mrd_strtab_free(mrd_strtab *tab);
/* Returns the id of the text, which is added if new. Invalid UTF-8 is first repaired with
 * U+FFFD. */
mrd_sid mrd_strtab_add(mrd_strtab *tab, mrd_str text);
static inline mrd_sid
mrd_strtab_addz(mrd_strtab *tab, const char *text)
{
    return mrd_strtab_add(tab, mrd_str_of(text));
}
/* Like mrd_strtab_add, but refused text is not counted, because the caller keeps it elsewhere. */
mrd_sid mrd_strtab_try(mrd_strtab *tab, mrd_str text);
/* Limits how much text may be added from now on: to `bytes`, and to MRD_STRTAB_RESERVE less than
 * the table's limit. MRD_STRTAB_ANY means only the table's limit. Returns how often text has been
 * refused before. */
#define MRD_STRTAB_ANY     SIZE_MAX
#define MRD_STRTAB_RESERVE ((size_t) 1 << 20)
/* limit for one file, or for one node of a session */
#define MRD_STRTAB_INPUT ((size_t) 16 << 20)
uint64_t mrd_strtab_allow(mrd_strtab *tab, size_t bytes);
/* Returns the id of the text; 0 if it is not in the table. Never adds text. */
mrd_sid mrd_strtab_find(const mrd_strtab *tab, mrd_str text);
/* Returns the text of an id; "" for an unknown id. Borrowed and NUL-terminated; valid while the
 * table exists. */
mrd_str mrd_strtab_get(const mrd_strtab *tab, mrd_sid id);
size_t mrd_strtab_memory(const mrd_strtab *tab); /* memory use, approximate bytes */
size_t mrd_strtab_count(const mrd_strtab *tab);  /* ids are 0 .. count-1 */
uint64_t mrd_strtab_refused(const mrd_strtab *tab);

#endif
