/* pause.c - the first process of a pod's sandbox and of a laboratory node. It waits and reaps
 * orphaned processes. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void
end(int signo)
{
    (void) signo;
    _exit(0);
}

static void
reap(int signo)
{
    (void) signo;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

int
main(void)
{
    signal(SIGTERM, end);
    signal(SIGINT, end);
    signal(SIGCHLD, reap);
    for (;;)
        pause();
}
