// Two threads of the JVM: over a pair of LinkedTransferQueues, or over one atomic slot.
//
//   java Messaging.java queues|atomic COUNT WINDOW
//
// Prints how many seconds the passing took, without the start of the JVM.

import java.util.concurrent.LinkedTransferQueue;
import java.util.concurrent.atomic.AtomicLong;

public class Messaging {
    /** What is passed. */
    record Message(long n) {}

    /** Turns of a loop before it leaves the core to others. */
    private static final int SPINS = 100;

    public static void main(String[] arguments) throws InterruptedException {
        long count = Long.parseLong(arguments[1]);
        long window = Long.parseLong(arguments[2]);
        long began = System.nanoTime();
        if (arguments[0].equals("queues")) queues(count, window);
        else atomic(count);
        System.out.println((System.nanoTime() - began) / 1e9);
    }

    /** Each message comes back over the second queue, and at most `window` are on their way. */
    private static void queues(long count, long window) throws InterruptedException {
        var there = new LinkedTransferQueue<Message>();
        var back = new LinkedTransferQueue<Message>();
        var other = new Thread(() -> {
            try {
                for (long i = 0; i < count; i++) back.put(there.take());
            } catch (InterruptedException ended) {
                throw new IllegalStateException(ended);
            }
        });
        other.start();
        long sent = 0;
        while (sent < Math.min(count, window)) there.put(new Message(sent++));
        for (long received = 0; received < count; received++) {
            check(back.take().n(), received);
            if (sent < count) there.put(new Message(sent++));
        }
        other.join();
    }

    /** One puts a number into the slot when it is empty, the other takes it out: 0 says that it was taken. */
    private static void atomic(long count) throws InterruptedException {
        var slot = new AtomicLong();
        var other = new Thread(() -> {
            for (long n = 1; n <= count; n++) turn(slot, n, 0);
        });
        other.start();
        for (long n = 1; n <= count; n++) turn(slot, 0, n);
        other.join();
        check(slot.get(), 0);
    }

    private static void turn(AtomicLong slot, long from, long to) {
        int spins = 0;
        while (!slot.compareAndSet(from, to)) {
            if (++spins % SPINS == 0) Thread.yield();
            else Thread.onSpinWait();
        }
    }

    private static void check(long came, long due) {
        if (came != due) throw new IllegalStateException(due + " was due, and " + came + " came");
    }
}
