/*
 * trace/import/capture_names.h - what the names of files say that the Neuron runtime and its tools write: kinds, and
 * numbers behind words ("i-0abc_pid_12_vnc_0_session_3.ntff"). Stateless.
 */
#ifndef MRD_TRACE_IMPORT_CAPTURE_NAMES_H
#define MRD_TRACE_IMPORT_CAPTURE_NAMES_H

#include "base/buf.h"

/* The number right behind the first `word` in name; MRD_NONE: there is none. */
int64_t mrd_capture_number(mrd_str name, const char *word);
/* Splits the name of a file or directory that begins with a process, "i-0abc_pid_4711_nc_0.ntff", at the end of the pid. The
 * directory name "i-0abc-4711" is accepted too. Returns false if the name identifies no process. */
bool mrd_capture_split(mrd_str name, mrd_str *ret_instance, int64_t *ret_pid, mrd_str *ret_rest);
/* "NTFF", "NEFF", ...; NULL for others. Static. */
const char *mrd_capture_kind(mrd_str name);

#endif
