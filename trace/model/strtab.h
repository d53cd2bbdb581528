/*
 * trace/model/strtab.h - a table of interned texts: names, categories, argument keys, values
 *
 * An id has 32 bits and is valid while the table exists. Equal texts have the same id, and 0 is the
 * empty text. The table has at most `max_bytes`, which are the bytes of all texts and 64 bytes for
 * each text. Beyond this limit, a new text gets MRD_SID_FULL ("(too many distinct names)") and is
 * counted. One input can have a lower limit (mrd_strtab_allow), which leaves room for other inputs
 * and for notes. Values that hardly repeat must not be interned (MRD_ARG_TEXT). Threads: one thread
 * may add texts. Others may read only while no text is added.
 */
#ifndef MRD_TRACE_STRTAB_H
#define MRD_TRACE_STRTAB_H

#include "base/buf.h"

typedef uint32_t mrd_sid;

#define MRD_SID_EMPTY 0u
#define MRD_SID_FULL  1u

typedef struct mrd_strtab mrd_strtab;

/* Creates a table. If max_bytes is 0, it is 64 MiB. Returns NULL if out of memory. */
mrd_strtab *mrd_strtab_new(size_t max_bytes);
void mrd_strtab_free(mrd_strtab *tab);
/* Returns the id of a text, and adds the text if it is new. Invalid UTF-8 is first replaced by
 * U+FFFD. */
mrd_sid mrd_strtab_add(mrd_strtab *tab, mrd_str text);
static inline mrd_sid
mrd_strtab_addz(mrd_strtab *tab, const char *text)
{
    return mrd_strtab_add(tab, mrd_str_of(text));
}
/* Interns a text as mrd_strtab_add() does, but does not count a refused text, because the caller
 * stores it elsewhere. */
mrd_sid mrd_strtab_try(mrd_strtab *tab, mrd_str text);
/* Limits how much text may be added from now on to `bytes`, so that one input cannot fill the
 * table. The last MRD_STRTAB_RESERVE bytes of the table stay free. With MRD_STRTAB_ANY, only the
 * limit of the table applies. Returns the number of texts that were refused until now. */
#define MRD_STRTAB_ANY     SIZE_MAX
#define MRD_STRTAB_RESERVE ((size_t) 1 << 20)
/* limit for one file, or for one node of a session */
#define MRD_STRTAB_INPUT ((size_t) 16 << 20)
uint64_t mrd_strtab_allow(mrd_strtab *tab, size_t bytes);
/* Returns the id of the text; 0 if it is not in the table. Never adds text. */
mrd_sid mrd_strtab_find(const mrd_strtab *tab, mrd_str text);
/* Returns the text of an id; "" for an unknown id. The text has a NUL at its end and is valid while
 * the table exists. */
mrd_str mrd_strtab_get(const mrd_strtab *tab, mrd_sid id);
size_t mrd_strtab_memory(const mrd_strtab *tab); /* memory use, approximate bytes */
size_t mrd_strtab_count(const mrd_strtab *tab);  /* ids are 0 .. count-1 */
uint64_t mrd_strtab_refused(const mrd_strtab *tab);

#endif
