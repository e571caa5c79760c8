import java.io.*;
import java.security.cert.*;
import java.util.*;

/** What Java calls the subject of a certificate. Reads one a line in base64; writes each name in base64. */
public class CertificateNames {
    public static void main(String[] arguments) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "US-ASCII"));
        for (String line; (line = lines.readLine()) != null; ) {
            byte[] der = Base64.getDecoder().decode(line);
            X509Certificate certificate =
                (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(der));
            String name = certificate.getSubjectX500Principal().getName();
            System.out.println(Base64.getEncoder().encodeToString(name.getBytes("UTF-8")));
        }
    }
}
