/*
 * trace/sink/perfetto/pf_about.h - writes information about a Perfetto trace as trace attributes:
 * collector, facts, clocks with their bounds, processes, incomplete inputs, notes. Perfetto puts
 * them into its metadata table as rows `trace_attribute.*`, and its info page shows them. Lists
 * have at most 1,000 entries.
 */
#ifndef MRD_TRACE_PF_ABOUT_H
#define MRD_TRACE_PF_ABOUT_H

#include "trace/model/catalog.h"
#include "trace/sink/perfetto/pf_file.h"

/* Adds one attribute to a TraceAttributes message. */
void mrd_pf_attribute_int(mrd_buf *to, const char *key, int64_t v);

/* Writes the information from the catalog. The times in the trace are session times plus
 * shift_ns. */
void mrd_pf_write_about(mrd_pf_file *file, const mrd_catalog *cat, uint32_t profile,
                        mrd_dur_ns shift_ns);

/* Writes the whole catalog. If Meridian reads the trace again, it restores all identities from the
 * catalog. Other readers skip these packets. */
void mrd_pf_write_catalog(mrd_pf_file *file, const mrd_catalog *cat, uint32_t profile);

#endif
