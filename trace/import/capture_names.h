/*
 * trace/import/capture_names.h - what the names of files say that the Neuron runtime and its tools write: kinds, and
 * numbers behind words ("i-0abc_pid_12_vnc_0_session_3.ntff"). Stateless.
 */
#ifndef MRD_TRACE_IMPORT_CAPTURE_NAMES_H
#define MRD_TRACE_IMPORT_CAPTURE_NAMES_H

#include "base/buf.h"

/* The number right behind the first `word` in name; MRD_NONE: there is none. */
int64_t mrd_capture_number(mrd_str name, const char *word);
/* "NTFF", "NEFF", ...; NULL for others. Static. */
const char *mrd_capture_kind(mrd_str name);

#endif
