/*
 * capture/probes.h - USDT probes of libmeridian.so: what is recorded is seen by bpftrace, perf and other eBPF
 * tools, too, with or without an agent. Internal.
 *
 *   probe              arguments
 *   meridian:begin     name; a scope begins
 *   meridian:end       name, nanoseconds since its begin
 *   meridian:span      name, its nanoseconds; spans whose both ends are known
 *   meridian:instant   name
 *   meridian:counter   name, the value's 64 bits
 *
 * A name is a text that ends with NUL. Each probe has a semaphore, which the kernel raises while somebody
 * looks: off, a probe costs one load and a branch. Places are written down in the section
 * .note.stapsdt, in the format of systemtap's sys/sdt.h. Machines other than x86-64 and arm64 have none.
 */
#ifndef MRD_CAPTURE_PROBES_H
#define MRD_CAPTURE_PROBES_H

#include "capture/record_what.h"

#if defined(__x86_64__) || defined(__aarch64__)
#define MRD_PROBES        1
#define MRD_PROBE_LIST(X) X(begin) X(end) X(span) X(instant) X(counter)
#define MRD_PROBE_DECLARE(name)                                                                    \
    extern volatile unsigned short mrd_probe_##name##_semaphore                                    \
        __attribute__((visibility("hidden")));
MRD_PROBE_LIST(MRD_PROBE_DECLARE)
#define MRD_PROBE(name, what, v)                                                                   \
    do {                                                                                           \
        if (__builtin_expect(mrd_probe_##name##_semaphore != 0, 0))                                \
            mrd_probe_##name((what), (v));                                                         \
    } while (0)
#else
#define MRD_PROBES               0
#define MRD_PROBE(name, what, v) ((void) (what), (void) (v))
#endif

/* Ticks of the ring clock for end and span. */
void mrd_probe_begin(const mrd_rec_what *what, uint64_t unused);
void mrd_probe_end(const mrd_rec_what *what, uint64_t ticks);
void mrd_probe_span(const mrd_rec_what *what, uint64_t ticks);
void mrd_probe_instant(const mrd_rec_what *what, uint64_t unused);
void mrd_probe_counter(const mrd_rec_what *what, uint64_t value);

#endif
