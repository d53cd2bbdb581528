"""Tests an agent whose control connection was refused, or cut without a message. It must have a new
one after its next data connection. Proxies between agent and aggregator, which the test controls,
cause this."""
import selectors
import socket
import threading

from lib import Cluster, finish, need_daemons, until

need_daemons()


class Proxy:
    """Passes connections on; `closes`: accepts and closes them; `deaf`: passes nothing on, and says nothing either."""

    def __init__(self, port):
        self.port, self.accepted, self.closes, self.deaf = port, 0, False, set()
        self.pairs, self.lock = [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def url(self):
        return f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                if self.closes:
                    raise ConnectionError
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                near.close()
                continue
            with self.lock:
                self.pairs.append((near, far))
            threading.Thread(target=self.carry, args=(near, far), daemon=True).start()

    def carry(self, near, far):
        with selectors.DefaultSelector() as s:
            s.register(near, selectors.EVENT_READ, far)
            s.register(far, selectors.EVENT_READ, near)
            try:
                while True:
                    for key, _ in s.select():
                        chunk = key.fileobj.recv(65536)
                        if near in self.deaf:
                            if not chunk:
                                s.unregister(key.fileobj)
                        elif chunk:
                            key.data.sendall(chunk)
                        else:
                            raise ConnectionError
            except (OSError, ValueError):
                self.end(near, far)

    @staticmethod
    def end(*sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self.end(*pair)

    def deafen(self):
        """What is connected now stays so for the agent, and is over for the aggregator."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for near, far in pairs:
            self.deaf.add(near)
            self.end(far)


class Proxied(Cluster):
    def begin(self):
        self.aggregator()
        until(self.answers, "the aggregator answers")
        self.data_proxy, self.control_proxy = (Proxy(int(url.rsplit(":", 1)[1])) for url in (self.data, self.control))
        self.data, self.control = self.data_proxy.url, self.control_proxy.url

    def cut_data(self):
        """Once the agent is back its new hello was welcomed."""
        before = self.metric("meridian_hellos_total")
        self.data_proxy.cut()
        until(lambda: self.metric("meridian_hellos_total") > before, "the agent is welcome again")

    def records(self):
        """A session of the agent, which answered itself: it did not have to be told by its heartbeat. A connection that has just been made, or
        an agent that has no processor now, may be too late for the first one."""
        def itself():
            id = self.start("--require", "all")
            late = [p.get("message") for p in self.session(id)["nodes"]] != [None]
            self.run("stop", id, want=None)
            return not late
        until(itself, "it did not join late")


def refused():
    """Control is refused for a while, and its first connection then takes part in a session."""
    with Proxied() as c:
        c.begin()
        c.control_proxy.closes = True
        c.agent(0)
        until(lambda: c.connected() == ["i-test0"], "data is connected")
        until(lambda: c.control_proxy.accepted >= 6, "control was dialled and refused some times")
        c.control_proxy.closes = False
        c.cut_data()
        until(lambda: c.control_proxy.pairs, "control is connected")
        c.records()


def dead():
    """The aggregator's end is gone, the agent's does not know."""
    with Proxied() as c:
        c.begin()
        c.agent(0)
        until(lambda: c.connected() == ["i-test0"] and c.control_proxy.pairs, "both are connected")
        c.records()
        c.control_proxy.deafen()
        before = c.control_proxy.accepted
        c.cut_data()
        until(lambda: c.control_proxy.accepted > before and c.control_proxy.pairs, "control is dialled though it looks connected")
        c.records()


for test in (refused, dead):
    test()
finish()
