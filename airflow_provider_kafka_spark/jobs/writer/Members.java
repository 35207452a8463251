package airflow_provider_kafka_spark.jobs.writer;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.kafka.common.utils.AppInfoParser;

/** Members of Kafka's clients that are not public, found by name. One that is gone is an error that names it. */
@SuppressWarnings({"cast", "rawtypes", "unchecked"})
final class Members {
    private Members() {
    }

    /** @throws UnsupportedOperationException if this client has no such class */
    static Class type(String name) {
        try {
            return Class.forName(name, true, AppInfoParser.class.getClassLoader());
        } catch (ClassNotFoundException error) {
            throw missing("class " + name);
        }
    }

    /** A field of a class or of one that it extends. */
    static Field field(Class owner, String name) {
        for (Class each = owner; each != null; each = each.getSuperclass()) {
            try {
                Field found = each.getDeclaredField(name);
                found.setAccessible(true);
                return found;
            } catch (NoSuchFieldException error) {
                continue;
            }
        }
        throw missing("field " + name + " in " + owner.getName());
    }

    /** A method of a class or of one that it extends. */
    static Method method(Class owner, String name, Class[] parameters) {
        for (Class each = owner; each != null; each = each.getSuperclass()) {
            try {
                Method found = each.getDeclaredMethod(name, parameters);
                found.setAccessible(true);
                return found;
            } catch (NoSuchMethodException error) {
                continue;
            }
        }
        throw missing("method " + name + " in " + owner.getName());
    }

    static Constructor constructor(Class owner, Class[] parameters) {
        try {
            Constructor found = owner.getDeclaredConstructor(parameters);
            found.setAccessible(true);
            return found;
        } catch (NoSuchMethodException error) {
            throw missing("known constructor of " + owner.getName());
        }
    }

    static Object get(Field field, Object owner) {
        try {
            return field.get(owner);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Call a method; what it throws arrives as it was, where that is unchecked. */
    static Object call(Method method, Object owner, Object[] arguments) {
        try {
            return method.invoke(owner, arguments);
        } catch (InvocationTargetException error) {
            Throwable cause = error.getCause();
            if (cause instanceof RuntimeException) {
                throw (RuntimeException) cause;
            }
            if (cause instanceof Error) {
                throw (Error) cause;
            }
            throw new IllegalStateException(cause);
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(error);
        }
    }

    static UnsupportedOperationException missing(String what) {
        return new UnsupportedOperationException("Kafka's client " + AppInfoParser.getVersion() + " has no " + what);
    }
}
