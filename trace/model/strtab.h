/*
 * trace/model/strtab.h - interned text: names, categories, argument keys, attribute values.
 *
 * An id is 32 bits and stable as long as the table exists; equal text has one id. 0 is the empty
 * text. Memory is bounded: at most `max_bytes` of text, each with 64 bytes for its place; then new
 * text gets MRD_SID_FULL ("(too many distinct names)") and the table counts it. What comes from one
 * input may be bounded more narrowly (mrd_strtab_allow), which leaves room for the others and for
 * what is said about it. Values that hardly repeat must not be interned
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
/* As mrd_strtab_add, but what is refused is not counted: the caller keeps the text elsewhere. */
mrd_sid mrd_strtab_try(mrd_strtab *tab, mrd_str text);
/* From now on at most `bytes` more of text, and MRD_STRTAB_RESERVE less than the table may have;
 * MRD_STRTAB_ANY: as much as it may have. Returns how often text was refused so far. */
#define MRD_STRTAB_ANY     SIZE_MAX
#define MRD_STRTAB_RESERVE ((size_t) 1 << 20)
#define MRD_STRTAB_INPUT   ((size_t) 16 << 20) /* for one file, or one node of a session */
uint64_t mrd_strtab_allow(mrd_strtab *tab, size_t bytes);
/* The id of text when it is there, 0 otherwise. Never adds. */
mrd_sid mrd_strtab_find(const mrd_strtab *tab, mrd_str text);
/* Borrowed and NUL-terminated; stays valid while the table exists. An unknown id gives "". */
mrd_str mrd_strtab_get(const mrd_strtab *tab, mrd_sid id);
size_t mrd_strtab_memory(const mrd_strtab *tab); /* bytes, nearly */
size_t mrd_strtab_count(const mrd_strtab *tab);  /* ids are 0 .. count-1 */
uint64_t mrd_strtab_refused(const mrd_strtab *tab);

#endif
