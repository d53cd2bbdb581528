/*
 * capture/api/probes.h - USDT probes of libmeridian.so. They show recorded events to bpftrace, perf
 * and other eBPF tools, with or without an agent. Internal.
 *
 *   probe              arguments
 *   meridian:begin     name of a scope that begins
 *   meridian:end       name of a scope that ends, and its duration in ns
 *   meridian:span      name and duration in ns of a span that was recorded with both ends at once
 *   meridian:instant   name of an instant
 *   meridian:counter   name of a counter, and the 64 bits of its new value
 *
 * A name is a text that ends with NUL. Each probe has a semaphore, which the kernel increments
 * while a tool uses the probe. An unused probe costs one load and a branch. The section
 * .note.stapsdt describes the probes in the format of systemtap's sys/sdt.h. Only x86-64 and arm64
 * have probes.
 */
#ifndef MRD_CAPTURE_API_PROBES_H
#define MRD_CAPTURE_API_PROBES_H

#include "capture/api/record_what.h"

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

/* These functions trigger the probes. mrd_probe_end and mrd_probe_span take a duration in ticks of
 * the ring clock. */
void mrd_probe_begin(const mrd_rec_what *what, uint64_t unused);
void mrd_probe_end(const mrd_rec_what *what, uint64_t ticks);
void mrd_probe_span(const mrd_rec_what *what, uint64_t ticks);
void mrd_probe_instant(const mrd_rec_what *what, uint64_t unused);
void mrd_probe_counter(const mrd_rec_what *what, uint64_t value);

#endif
