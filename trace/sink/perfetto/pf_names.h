/*
 * trace/sink/perfetto/pf_names.h - interned text and debug annotations of a Perfetto trace. Each
 * kind of text has its own ids, from 1 in order of first use. An entry must be in the packet that
 * uses it first, so new entries are collected in `fresh` until that packet is written.
 */
#ifndef MRD_TRACE_PF_NAMES_H
#define MRD_TRACE_PF_NAMES_H

#include "trace/model/catalog.h"
#include "trace/sink/perfetto/pf_file.h"

typedef enum {
    MRD_PF_CATEGORY,
    MRD_PF_NAME,
    MRD_PF_ARG_NAME,
    MRD_PF_ARG_STRING,
    MRD_PF_KINDS
} mrd_pf_kind;

/* Limits in bytes for one text, and for all arguments of one event, because readers reject packets
 * of 1 MiB and more. Longer texts are cut, and further arguments are left out. The trace states how
 * often this happened. */
#define MRD_PF_TEXT_MAX (128u << 10)
#define MRD_PF_ARGS_MAX (512u << 10)

typedef struct {
    const mrd_strtab *strings;
    /* indexed by kind and mrd_sid: the encoded field with the text's id; 0 until the text is
     * written */
    mrd_pb_field *field[MRD_PF_KINDS];
    size_t n[MRD_PF_KINDS];
    uint32_t next[MRD_PF_KINDS];
    mrd_buf fresh; /* encoded InternedData message that the next packet must contain */
    /* number of texts cut, and number of arguments left out */
    uint64_t cut, left_out;
    mrd_err err;
} mrd_pf_names;

void mrd_pf_names_init(mrd_pf_names *names, const mrd_strtab *strings);
void mrd_pf_names_fini(mrd_pf_names *names);
/* Prepares for the next file of a trace: forgets which texts were written, but keeps the counts. */
void mrd_pf_names_again(mrd_pf_names *names);
mrd_pb_field mrd_pf_names_add(mrd_pf_names *names, mrd_pf_kind kind, mrd_sid sid);

/* Returns the field that contains the text's id, for a TrackEvent or a DebugAnnotation. Returns 0
 * if out of memory. */
static inline mrd_pb_field
mrd_pf_name(mrd_pf_names *names, mrd_pf_kind kind, mrd_sid sid)
{
    if (__builtin_expect(sid < names->n[kind] && names->field[kind][sid] != 0, 1))
        return names->field[kind][sid];
    return mrd_pf_names_add(names, kind, sid);
}

/* Appends the arguments of an event to a TrackEvent. */
void mrd_pf_args(mrd_pf_names *names, mrd_buf *event, const mrd_arg *args, uint32_t count);
/* Add an argument of Meridian's own. Its name is not interned. */
void mrd_pf_arg_int(mrd_buf *event, const char *name, int64_t v);
void mrd_pf_arg_text(mrd_buf *event, const char *name, const char *text);

#endif
