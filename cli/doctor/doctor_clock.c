/* cli/doctor/doctor_clock.c - checks the clocks that stamp events, and how well times of different
 * nodes can be compared */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/obj.h"
#include "base/sys/file.h"
#include "base/sys/udpstamp.h"
#include "cli/doctor/doctor.h"
#include "hw/hostclock.h"

/* ---- The clock that stamps events ---- */

/* Returns how long it takes to read the clock, in ns: the shortest of many measurements. */
static int64_t
reading_cost(void)
{
    int64_t best = INT64_MAX;

    for (int i = 0; i < 200; i++) {
        mrd_local_ns from = mrd_local_now();

        for (int k = 0; k < 100; k++)
            (void) mrd_local_now();
        if (mrd_local_diff(mrd_local_now(), from) < best)
            best = mrd_local_diff(mrd_local_now(), from);
    }
    return best / 100;
}

static bool
cpu_has(const mrd_doctor *doctor, const char *flag)
{
    char path[1024], *line = NULL;
    size_t cap = 0, n = strlen(flag);
    FILE *file = fopen(mrd_doctor_proc(doctor, "/cpuinfo", path), "re");
    bool has = false;

    while (file != NULL && !has && getline(&line, &cap, file) > 0) {
        if (strncmp(line, "flags", 5) != 0)
            continue;
        for (const char *p = line; !has && (p = strstr(p, flag)) != NULL; p += n)
            has = (p[-1] == ' ' || p[-1] == '\t') && (p[n] == ' ' || p[n] == '\n');
        break; /* all processors have the same flags, so the first line suffices */
    }
    if (file != NULL)
        fclose(file);
    free(line);
    return has;
}

void
mrd_doctor_clock(mrd_doctor *doctor)
{
    char path[1024], now[64] = "", all[256] = "";
    int64_t cost = reading_cost();
    bool tsc;

    (void) mrd_file_line(
        mrd_doctor_sys(doctor, "/devices/system/clocksource/clocksource0/current_clocksource",
                       path),
        now, sizeof(now));
    (void) mrd_file_line(
        mrd_doctor_sys(doctor, "/devices/system/clocksource/clocksource0/available_clocksource",
                       path),
        all, sizeof(all));
    tsc = strstr(all, "tsc") != NULL;
    if (now[0] == '\0')
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "mount /sys, or give --sys-root",
                       "the kernel's clock source cannot be read from %s", path);
    else if (strcmp(now, "tsc") == 0 || strcmp(now, "arch_sys_counter") == 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "%s, a reading costs %" PRId64 " ns", now,
                       cost);
    else if (strcmp(now, "kvm-clock") == 0 || strcmp(now, "hyperv_clocksource_tsc_page") == 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK,
                       tsc ? "a little cheaper: boot with clocksource=tsc" : NULL,
                       "%s, a reading costs %" PRId64 " ns", now, cost);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       tsc ? "boot with clocksource=tsc tsc=reliable"
                           : "the kernel distrusts this machine's TSC: see dmesg",
                       "the kernel reads time from %s: every event pays %" PRId64 " ns for it", now,
                       cost);
    if (cpu_has(doctor, "tsc") &&
        !(cpu_has(doctor, "constant_tsc") && cpu_has(doctor, "nonstop_tsc")))
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "use another instance type for exact work",
                       "the TSC of this processor changes its rate or stops in idle states");
}

/* ---- The wall clock ---- */

void
mrd_doctor_wall(mrd_doctor *doctor)
{
    struct timex tx = { 0 };
    int state = adjtimex(&tx); /* a zeroed argument only reads the state */

    if (state < 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, NULL, "adjtimex: %s", strerror(errno));
    else if (state == TIME_ERROR || (tx.status & STA_UNSYNC) != 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "run chrony (on EC2 with `server 169.254.169.123`): certificates and "
                       "sessions before the first probe depend on it",
                       "no service sets the wall clock; profiles are aligned nevertheless");
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "the wall clock is kept; the kernel's bound of its error is %ld us",
                       tx.maxerror);
}

/* ---- Sources of absolute time with a bound ---- */

/* Returns true if EC2 has no PTP clock for instances of this type, such as trn2.48xlarge. The
 * EC2 user guide of 2026 lists precision-time placement groups for the families M, C, R, X and I
 * only. */
static bool
is_without_ptp(const char *instance_type)
{
    static const char *const families[] = { "trn", "inf", "p", "g", "dl" };

    for (size_t i = 0; i < MRD_COUNT(families); i++) {
        size_t len = strlen(families[i]);

        if (strncmp(instance_type, families[i], len) == 0 && instance_type[len] >= '0' &&
            instance_type[len] <= '9')
            return true;
    }
    return false;
}

static void
say_ptp(mrd_doctor *doctor, const mrd_hostclock_reading *reading)
{
    char path[1024], vendor[64] = "", type[64] = "";

    (void) mrd_file_line(mrd_doctor_sys(doctor, "/class/dmi/id/sys_vendor", path), vendor,
                         sizeof(vendor));
    (void) mrd_file_line(mrd_doctor_sys(doctor, "/class/dmi/id/product_name", path), type,
                         sizeof(type));
    if (reading->has_phc && reading->phc_error_ns >= 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "the PTP clock %s states an error of at most %" PRId64 " ns",
                       reading->phc_name, reading->phc_error_ns);
    else if (reading->has_phc)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "the PTP clock %s states no error, so it does not limit the clock offset",
                       reading->phc_name);
    else if (strcmp(vendor, "Amazon EC2") == 0 && is_without_ptp(type))
        mrd_doctor_say(doctor, MRD_DOCTOR_OK,
                       "for times that agree with UTC, run the aggregator on an instance of the "
                       "families M, C, R, X or I in a precision-time placement group",
                       "EC2 has no PTP clock for %s: packets align this node", type);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "no PTP clock: packets align this node");
}

void
mrd_doctor_absolute(mrd_doctor *doctor)
{
    mrd_hostclock_options options = { .sys_root = doctor->agent->sys_root };
    mrd_hostclock *hostclock = mrd_hostclock_open(&options);
    mrd_hostclock_reading reading;
    mrd_clockbound clockbound;
    mrd_why why = { 0 };
    mrd_err err;

    if (hostclock == NULL) {
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, NULL, "out of memory");
        return;
    }
    mrd_hostclock_read(hostclock, &reading);
    say_ptp(doctor, &reading);
    err = mrd_hostclock_clockbound(hostclock, &clockbound, &why);
    if (err == MRD_OK && reading.clockbound_ns >= 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "ClockBound states that the wall clock is wrong by at most %" PRId64 " ns",
                       reading.clockbound_ns);
    else if (err == MRD_OK)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, "see the log of the clockbound service",
                       "ClockBound runs, but states no valid bound of the wall clock");
    else if (err == MRD_NOTFOUND)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL, "ClockBound is not used: %s", why.text);
    else
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, NULL, "ClockBound is not used: %s", why.text);
    mrd_hostclock_close(hostclock);
}

/* ---- Kernel stamps of packets ---- */

/* Sends one packet from one local socket to another. Returns true if the kernel took a time stamp
 * when the packet was sent and another one when it was received. */
static bool
stamped(int from, int to, bool *ret_sent, bool *ret_received, uint32_t number)
{
    /* poll() always reports errors, so the second socket needs no events */
    struct pollfd poll_fds[2] = { { to, POLLIN, 0 }, { from, 0, 0 } };
    int64_t end = mrd_local_now().ns + MRD_SEC, wall;
    uint8_t data[16] = { 0 };
    bool arrived = false, left = false;
    uint32_t which;
    size_t n;

    if (mrd_udp_send(from, data, sizeof(data), NULL) != MRD_OK)
        return false;
    while (!(arrived && left) && mrd_local_now().ns < end) {
        (void) poll(poll_fds, 2, 10);
        if (mrd_udp_recv(to, data, sizeof(data), &n, &wall, NULL) == MRD_OK) {
            arrived = true;
            *ret_received = *ret_received || wall != 0;
        }
        if (mrd_udp_sent(from, &which, &wall) == MRD_OK && which == number) {
            left = true;
            *ret_sent = *ret_sent || wall != 0;
        }
    }
    return *ret_sent && *ret_received;
}

void
mrd_doctor_stamps(mrd_doctor *doctor)
{
    bool sent = false, received = false;
    mrd_why why = { 0 };
    int to = -1, from = -1;

    if (mrd_udp_open("127.0.0.1", 0, true, &to, &why) != MRD_OK ||
        mrd_udp_open("127.0.0.1", mrd_udp_port(to), false, &from, &why) != MRD_OK)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING, NULL, "%s", why.text);
    /* several tries, because the kernel turns on time stamps with a delay */
    else
        for (uint32_t i = 0; i < 3; i++) {
            if (stamped(from, to, &sent, &received, i))
                break;
        }
    if (from >= 0 && sent && received)
        mrd_doctor_say(doctor, MRD_DOCTOR_OK, NULL,
                       "the kernel stamps packets that leave and arrive");
    else if (from >= 0)
        mrd_doctor_say(doctor, MRD_DOCTOR_WARNING,
                       "allow SO_TIMESTAMPING (seccomp, gVisor and some network plug-ins do not)",
                       "the kernel does not stamp packets that %s: clock bounds get wider by what "
                       "the programs wait",
                       sent       ? "arrive"
                       : received ? "leave"
                                  : "leave or arrive");
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
}
