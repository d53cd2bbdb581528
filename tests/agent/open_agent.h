/* tests/agent/open_agent.h - an agent of the node i-test with a transport of the test. */
#ifndef MRD_TESTS_OPEN_AGENT_H
#define MRD_TESTS_OPEN_AGENT_H

#include <stdio.h>

#include "agent/daemon/agent.h"

/* Opens the agent. On failure prints the reason to stderr and returns NULL. */
static inline mrd_agent *
open_agent(const mrd_agent_options *o, mrd_transport *t)
{
    mrd_node_identity node = {
        .instance_id = "i-test", .source = "option", .host_name = "h", .boot_id = "b"
    };
    mrd_agent *a = NULL;
    mrd_why why = { 0 };

    if (mrd_agent_open(o, &node, t, &a, &why) != MRD_OK)
        fprintf(stderr, "%s\n", why.text);
    return a;
}

#endif
