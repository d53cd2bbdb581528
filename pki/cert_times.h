/*
 * pki/cert_times.h - reads the periods of validity of a daemon's own certificates and of its
 * trusted authorities.
 *
 * Each call reads the files again, so that the result changes after a renewal. Threads: stateless.
 */
#ifndef MRD_PKI_CERT_TIMES_H
#define MRD_PKI_CERT_TIMES_H

#include "base/clock.h"
#include "base/metrics.h"

#define MRD_CERT_TIMES_BYTES (1u << 20) /* maximum size of a file in bytes */
/* Maximum number of certificates that are reported per file. The certificates that expire first
 * are reported. */
#define MRD_CERT_TIMES_MAX 16

typedef struct {
    unsigned number; /* position of the certificate in its file, from 1 */
    bool authority;  /* the certificate is an authority's, so it may sign others */
    /* common name, in which '_' replaces the characters that a metrics label cannot have */
    char name[128];
    mrd_wall_ns begin, end;
} mrd_cert_times;

/*
 * Reads the certificates of a PEM file and sorts them by the end of their validity. Stores the
 * first MRD_CERT_TIMES_MAX certificates in `to`, and the number of all certificates in *ret_n.
 * Skips keys and revocation lists. Errors: the errors of mrd_file_read, and SYNTAX for a damaged
 * certificate or a file without certificates. The message names the path.
 */
mrd_err mrd_cert_times_read(const char *path, mrd_cert_times to[MRD_CERT_TIMES_MAX], size_t *ret_n,
                            mrd_why *why);
/* Reads the first certificate of a PEM file. TLS sends this certificate to peers. */
mrd_err mrd_cert_times_first(const char *path, mrd_cert_times *ret_times, mrd_why *why);

typedef struct {
    /* option that sets the path, without dashes; used as a metrics label */
    const char *option;
    const char *path; /* NULL if the option was not given */
} mrd_cert_file;

/* Writes the metrics of all certificates in the files: start and end of their validity. A further
 * metric shows which files cannot be read. */
void mrd_cert_times_metrics(mrd_metrics_text *text, const mrd_cert_file *files, size_t count);

#endif
