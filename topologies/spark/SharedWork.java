package windbolt;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * Pieces of work that threads of the driver share: each takes the next one that is left. Compiled together with the class
 * whose work it is (java.py).
 */
abstract class SharedWork {
    final int threads;
    private final int pieces;
    private final AtomicInteger next = new AtomicInteger();

    /** ``most``: how many threads there may be; there are no more than pieces. */
    SharedWork(int pieces, int most) {
        this.pieces = pieces;
        this.threads = Math.min(most, pieces);
    }

    /** Called in each thread with its number: takes pieces until none is left. */
    abstract void work(int thread) throws Throwable;

    /** Called where the query is stopped: ends what threads wait for. Nothing is left for them then. */
    abstract void stop();

    /** Takes a piece: its number; less than 0 where none is left. */
    final int next() {
        int piece = this.next.getAndIncrement();
        return piece < this.pieces ? piece : -1;
    }

    /** What is left need not be done. */
    private void end() {
        this.next.set(this.pieces);
    }

    /**
     * Does all of it in threads with these names. Throws the failure of one of them, or InterruptedException where the
     * query is stopped; none is at work any more then.
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

    /** Does all of it in the present thread: for work that ends by itself where its thread is interrupted. */
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
