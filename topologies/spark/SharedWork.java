package windbolt;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * Pieces of work that threads of the driver share: each takes the next remaining one. Compiled together with the class
 * whose work it is (java.py).
 */
abstract class SharedWork {
    final int threads;
    private final int pieces;
    private final AtomicInteger next = new AtomicInteger();

    /** ``most``: most threads; at most one per piece is started. */
    SharedWork(int pieces, int most) {
        this.pieces = pieces;
        this.threads = Math.min(most, pieces);
    }

    /** Called in each thread with its number: takes pieces until none remains. */
    abstract void work(int thread) throws Throwable;

    /** Called when the query is stopped: ends what threads wait for. Then no piece remains for them. */
    abstract void stop();

    /** Takes a piece and returns its number; negative if none remains. */
    final int next() {
        int piece = this.next.getAndIncrement();
        return piece < this.pieces ? piece : -1;
    }

    /** Declares the remaining pieces unnecessary. */
    private void end() {
        this.next.set(this.pieces);
    }

    /**
     * Does all pieces in threads with these names. Throws the failure of one of them, or InterruptedException if the
     * query is stopped; by then no thread is working.
     */
    final void run(String name) throws Exception {
        Worker[] workers = new Worker[this.threads];
        for (int at = 0; at < workers.length; at++) {
            workers[at] = new Worker(this, at, name + at);
            workers[at].setDaemon(true);
            workers[at].start();
        }
        boolean interrupted = false;
        for (int at = 0; at < workers.length; at++) {
            while (workers[at].isAlive()) {
                try {
                    workers[at].join();
                } catch (InterruptedException stopped) {
                    interrupted = true;
                    end();
                    stop();
                }
            }
        }
        if (interrupted) {
            throw new InterruptedException();
        }
        for (int at = 0; at < workers.length; at++) {
            if (workers[at].failure != null) {
                throw new Exception(workers[at].failure.toString(), workers[at].failure);
            }
        }
    }

    /** Does all pieces in the present thread, for work that ends when its thread is interrupted. */
    final void runHere() throws Exception {
        try {
            work(0);
        } catch (Throwable failure) {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            throw new Exception(failure.toString(), failure);
        }
    }

    private static final class Worker extends Thread {
        private final SharedWork shared;
        private final int number;
        Throwable failure = null;

        Worker(SharedWork shared, int number, String name) {
            super(name);
            this.shared = shared;
            this.number = number;
        }

        public void run() {
            try {
                this.shared.work(this.number);
            } catch (Throwable problem) {
                this.failure = problem;
                this.shared.end();
            }
        }
    }
}
