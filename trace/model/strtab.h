/*
 * trace/model/strtab.h - interned text: names, categories, argument keys, attribute values.
 *
 * An id is 32 bits and stable for the life of the table; equal text has one id. 0 is the empty
 * text. Memory is bounded: at most `max_bytes` of text; then new text gets MRD_SID_FULL ("(too many
 * distinct names)") and the table counts it. Values that hardly repeat must not be interned
 * (MRD_ARG_TEXT). Threads: one writer; concurrent readers are allowed only while nobody adds.
 */
#ifndef MRD_TRACE_STRTAB_H
#define MRD_TRACE_STRTAB_H

#include "base/buf.h"

typedef uint32_t mrd_sid;

#define MRD_SID_EMPTY 0u
#define MRD_SID_FULL  1u

typedef struct mrd_strtab mrd_strtab;

mrd_strtab *mrd_strtab_new(size_t max_bytes); /* 0: 64 MiB. NULL without memory */
void mrd_strtab_free(mrd_strtab *tab);
/* The id of text, added when new. Text that is not UTF-8 is repaired with U+FFFD first. */
mrd_sid mrd_strtab_add(mrd_strtab *tab, mrd_str text);
static inline mrd_sid
mrd_strtab_addz(mrd_strtab *tab, const char *text)
{
    return mrd_strtab_add(tab, mrd_str_of(text));
}
/* The id of text when it is there, 0 otherwise. Never adds. */
mrd_sid mrd_strtab_find(const mrd_strtab *tab, mrd_str text);
/* Borrowed and NUL-terminated; stays valid while the table lives. An unknown id gives "". */
mrd_str mrd_strtab_get(const mrd_strtab *tab, mrd_sid id);
size_t mrd_strtab_count(const mrd_strtab *tab); /* ids are 0 .. count-1 */
uint64_t mrd_strtab_refused(const mrd_strtab *tab);

#endif
