/*
 * proto/cert_times.h - from when until when the certificates are valid that a daemon was given: its
 * own and those of the authorities it trusts. Files are read at each call, so that what is told
 * follows a renewal.
 *
 * Threads: stateless.
 */
#ifndef MRD_PROTO_CERT_TIMES_H
#define MRD_PROTO_CERT_TIMES_H

#include "base/clock.h"
#include "base/metrics.h"

#define MRD_CERT_TIMES_BYTES (1u << 20) /* of a file */
#define MRD_CERT_TIMES_MAX   16 /* of its certificates that are told, those that end first */

typedef struct {
    unsigned number; /* in its file, from 1 */
    bool authority;  /* it signs others */
    char name[128];  /* common name; characters that a label cannot have are '_' */
    mrd_wall_ns begin, end;
} mrd_cert_times;

/*
 * The certificates of a PEM file in the order of their ends; *ret_n: how many the file has, of which
 * the first MRD_CERT_TIMES_MAX are in `to`. Keys and revocation lists between them are passed over.
 * Errors, each with the path: those of mrd_file_read, SYNTAX (no certificate, one that is damaged).
 */
mrd_err mrd_cert_times_read(const char *path, mrd_cert_times to[MRD_CERT_TIMES_MAX], size_t *ret_n,
                            mrd_why *why);
/* The first certificate of a file: the one that is shown to others. */
mrd_err mrd_cert_times_first(const char *path, mrd_cert_times *ret_times, mrd_why *why);

typedef struct {
    const char *option; /* by which the file was given, without dashes: the label */
    const char *path;   /* NULL: it was not */
} mrd_cert_file;

/* Begin and end of all of them, and which file cannot be read. */
void mrd_cert_times_metrics(mrd_metrics_text *x, const mrd_cert_file *files, size_t n);

#endif
