import"./c.VPWWRP2W.js";import"./c.G4SW5M46.js";import"./c.5CTZL7R2.js";import"./c.FAPPGTHN.js";import"./c.GRC6Y3EM.js";
