/*
 * pki/cert_times.h - the validity of a daemon's own certificates and of its trusted authorities.
 * Each call reads the files again, so that the result follows a renewal.
 *
 * Threads: stateless.
 */
#ifndef MRD_PKI_CERT_TIMES_H
#define MRD_PKI_CERT_TIMES_H

#include "base/clock.h"
#include "base/metrics.h"

#define MRD_CERT_TIMES_BYTES (1u << 20) /* of a file */
/* The maximum number of certificates reported per file. The ones with the earliest expiry are
 * reported. */
#define MRD_CERT_TIMES_MAX 16

typedef struct {
    unsigned number; /* in its file, from 1 */
    bool authority;  /* it signs others */
    /* common name; characters that a metrics label cannot have are replaced by '_' */
    char name[128];
    mrd_wall_ns begin, end;
} mrd_cert_times;

/*
 * Reads the certificates of a PEM file, sorted by the end of their validity. *ret_n is the number
 * in the file. The first MRD_CERT_TIMES_MAX are stored in `to`. Keys and revocation lists are
 * skipped. Errors name the path: the errors of mrd_file_read, and SYNTAX for no certificate or a
 * damaged one.
 */
mrd_err mrd_cert_times_read(const char *path, mrd_cert_times to[MRD_CERT_TIMES_MAX], size_t *ret_n,
                            mrd_why *why);
/* Reads the first certificate of a file, because TLS sends this one to peers. */
mrd_err mrd_cert_times_first(const char *path, mrd_cert_times *ret_times, mrd_why *why);

typedef struct {
    /* the option that named the file, without dashes; it becomes a metrics label */
    const char *option;
    const char *path; /* NULL: it was not */
} mrd_cert_file;

/* Writes metrics: start and end of all certificates, and which files cannot be read. */
void mrd_cert_times_metrics(mrd_metrics_text *text, const mrd_cert_file *files, size_t count);

#endif
